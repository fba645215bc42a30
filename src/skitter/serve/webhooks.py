"""Webhooks: events of crawls, sent to URLs that somebody has named, at least once each.

A delivery is kept, together with how far the events of its crawl were read, before anything is sent; it is sent until its
receiver takes it. So a server that is killed at any moment loses none, and may send one twice, with the same id.
"""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from skitter.fetch.address import Guard
from skitter.fetch.webhook import Delivery, deliver, problem_of
from skitter.reporting.format import as_json, moment
from skitter.serve.catalogue import Catalogue
from skitter.serve.history import history_of
from skitter.serve.problems import ProblemError, bad_request, conflict, not_found
from skitter.serve.shapes import Deliveries, NewWebhook, Sent, Webhook, WebhookMade, Webhooks

_SCHEMA = (Path(__file__).parent / "webhooks.sql").read_text(encoding="utf-8")
_EVERY = 1.0  # seconds between two looks
_AT_ONCE = 8  # deliveries
_PAUSES = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)  # seconds before another try
_MOST_TRIES = 50  # over about two days
_MOST = 50  # webhooks
_KEPT = 30 * 86400.0  # seconds for which deliveries that ended are listed


class Hooks:
    """The webhooks of a server, and what they have been told."""

    def __init__(self, path: Path, catalogue: Catalogue, guard: Guard) -> None:
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.executescript(_SCHEMA)
        self._catalogue = catalogue
        self._guard = guard

    # -- what the API asks -------------------------------------------------------------------------------------

    def add(self, new: NewWebhook) -> WebhookMade:
        """A new webhook. Its secret is shown once; what has happened before is not sent."""
        if wrong := problem_of(new.url):
            raise bad_request(f"url: {wrong}")
        if len(self._all()) >= _MOST:
            raise conflict(f"there are {_MOST} webhooks already; delete one")
        hook, secret, now = secrets.token_hex(8), secrets.token_urlsafe(32), time.time()
        ends = [(hook, served.id, self._end(served.id)) for served in self._catalogue.all()]
        with self._base:
            self._base.execute("begin")
            self._base.execute(
                "insert into hooks values (?, ?, ?, ?, ?)",
                (hook, new.url, secret, as_json(list(new.events)), now),
            )
            self._base.executemany("insert into positions values (?, ?, ?)", ends)
            self._base.execute("commit")
        return WebhookMade(id=hook, url=new.url, events=new.events, created=moment(now), secret=secret)

    def _end(self, crawl: str) -> int:
        """Where the events of a crawl end now."""
        path = self._catalogue.find(crawl).path
        if path is None:
            return 0
        try:
            return self._catalogue.find(crawl).directory.history_file.stat().st_size
        except OSError:
            return 0

    def all(self) -> Webhooks:
        """Every webhook, without its secret."""
        return Webhooks([_shown(row) for row in self._all()])

    def delete(self, hook: str) -> None:
        """Forget a webhook, and what it has not been told yet."""
        self._known(hook)
        with self._base:
            self._base.execute("begin")
            for table, name in (("deliveries", "hook"), ("positions", "hook"), ("hooks", "id")):
                self._base.execute(f"delete from {table} where {name} = ?", (hook,))  # noqa: S608  names of our own
            self._base.execute("commit")

    def deliveries(self, hook: str) -> Deliveries:
        """The latest deliveries of a webhook."""
        self._known(hook)
        rows = self._base.execute(
            "select id, crawl, event, at, tries, state, problem from deliveries where hook = ? order by at desc, id limit 1000",
            (hook,),
        )
        return Deliveries(
            [
                Sent(id_, crawl, event, moment(at), tries, state, problem)
                for id_, crawl, event, at, tries, state, problem in rows
            ]
        )

    def replay(self, hook: str, delivery: str) -> None:
        """Send a delivery once more, whatever became of it."""
        changed = self._base.execute(
            "update deliveries set state = 'waiting', tries = 0, due = 0 where hook = ? and id = ?",
            (hook, delivery),
        ).rowcount
        if not changed:
            raise not_found("there is no such delivery")

    def _all(self) -> list[tuple[str, str, str, str, float]]:
        return self._base.execute(
            "select id, url, secret, events, created from hooks order by created"
        ).fetchall()

    def _known(self, hook: str) -> None:
        if not any(row[0] == hook for row in self._all()):
            raise not_found("there is no such webhook")

    # -- the work ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send what happens, until cancelled."""
        while True:
            hooks = self._all()
            if hooks:
                self._collect(hooks)
                await self._send({row[0]: row for row in hooks})
            await asyncio.sleep(_EVERY)

    def _collect(self, hooks: Sequence[tuple[str, str, str, str, float]]) -> None:
        """Make a delivery of every event that is new, in the write that remembers how far the events were read."""
        for served in self._catalogue.all():
            for hook, _, _, kinds, _ in hooks:
                wanted = msgspec.json.decode(kinds, type=list[str])
                found = self._base.execute(
                    "select at from positions where hook = ? and crawl = ?", (hook, served.id)
                ).fetchone()
                try:
                    events = history_of(served, found[0] if found else 0, 500)
                except ProblemError:
                    continue
                if not events:
                    continue
                rows = [
                    (
                        f"{hook}-{served.id}-{one.id}",
                        hook,
                        served.id,
                        one.id,
                        time.time(),
                        as_json(msgspec.to_builtins(one)),
                    )
                    for one in events
                    if one.kind in wanted
                ]
                with self._base:
                    self._base.execute("begin immediate")
                    self._base.executemany(
                        "insert or ignore into deliveries (id, hook, crawl, event, at, body) values (?, ?, ?, ?, ?, ?)",
                        rows,
                    )
                    self._base.execute(
                        "insert or replace into positions values (?, ?, ?)", (hook, served.id, events[-1].id)
                    )
                    self._base.execute("commit")

    async def _send(self, hooks: dict[str, tuple[str, str, str, str, float]]) -> None:
        """Send what is due, some at a time."""
        now = time.time()
        self._base.execute("delete from deliveries where state != 'waiting' and at < ?", (now - _KEPT,))
        rows = self._base.execute(
            "select hook, id, crawl, tries, body from deliveries where state = 'waiting' and due <= ? order by at limit ?",
            (now, _AT_ONCE),
        ).fetchall()
        await asyncio.gather(
            *(
                self._try(hooks[hook], id_, crawl, tries, body)
                for hook, id_, crawl, tries, body in rows
                if hook in hooks
            )
        )

    async def _try(
        self, hook: tuple[str, str, str, str, float], id_: str, crawl: str, tries: int, body: str
    ) -> None:
        at = time.time()
        text = as_json({"crawl": crawl, "delivery": id_, "happened": msgspec.json.decode(body)})
        delivery = Delivery(hook[1], text.encode(), id_, at, hook[2].encode())
        problem = await asyncio.to_thread(deliver, delivery, self._guard)
        tries += 1
        state = "sent" if not problem else "waiting" if tries < _MOST_TRIES else "given up"
        due = at + _PAUSES[min(tries, len(_PAUSES)) - 1]
        self._base.execute(
            "update deliveries set state = ?, tries = ?, due = ?, problem = ? where id = ?",
            (state, tries, due, problem, id_),
        )

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _shown(row: tuple[str, str, str, str, float]) -> Webhook:
    hook, url, _, kinds, created = row
    return Webhook(id=hook, url=url, events=msgspec.json.decode(kinds), created=moment(created))
