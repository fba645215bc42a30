"""The API as a table: one line for each thing that may be asked. The server and its OpenAPI document are both made of it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

import skitter
from skitter.serve import shapes
from skitter.serve.answers import Answers
from skitter.serve.exports import Exporting
from skitter.serve.running import Commands
from skitter.serve.shapes import Crawl, Health, NewCrawl, Nothing, Orders, Told
from skitter.serve.steering import Steering
from skitter.serve.webhooks import Hooks

API = "/api/v1"


class Asked(Struct, frozen=True):
    """A request, checked: what its path names, its query, and its body."""

    path: Mapping[str, str]
    query: Any
    body: Any


Handler = Callable[[Asked], Awaitable[Any]]


class Route(Struct, frozen=True, kw_only=True):
    """One thing that may be asked."""

    method: str
    path: str
    summary: str
    scope: str  # what the asker must be allowed to do; empty: nothing
    answer: type | None  # None: a stream of events; Path: a file
    handler: Handler | None = None  # None: the server answers it itself
    query: type[Struct] = Nothing
    body: type[Struct] | None = None
    status: int = 200
    tag: str = "crawls"

    @property
    def name(self) -> str:
        """What identifies it in the document."""
        words = [word.strip("{}") for word in self.path.removeprefix(API).split("/") if word]
        return "_".join([self.method.lower(), *words]).replace(".", "_").replace("-", "_")

    @property
    def names_in_path(self) -> list[str]:
        """Its parts that are not fixed."""
        return [word[1:-1] for word in self.path.split("/") if word.startswith("{")]


def table(
    answers: Answers, steering: Steering, commands: Commands, exporting: Exporting, hooks: Hooks
) -> list[Route]:
    """Every route."""
    return [*_of_crawls(answers, steering, commands), *_of_exports(answers, exporting), *_of_hooks(hooks)]


def _of_hooks(hooks: Hooks) -> list[Route]:
    one = f"{API}/webhooks/{{webhook}}"

    async def listed(_: Asked) -> shapes.Webhooks:
        return hooks.all()

    async def add(asked: Asked) -> shapes.WebhookMade:
        return hooks.add(asked.body)

    async def delete(asked: Asked) -> Told:
        hooks.delete(asked.path["webhook"])
        return Told("deleted")

    async def deliveries(asked: Asked) -> shapes.Deliveries:
        return hooks.deliveries(asked.path["webhook"])

    async def replay(asked: Asked) -> Told:
        hooks.replay(asked.path["webhook"], asked.path["delivery"])
        return Told("it is sent again")

    def admin(
        method: str, path: str, summary: str, answer: type, handler: Handler, body: type[Struct] | None = None
    ) -> Route:
        return Route(
            method=method,
            path=path,
            summary=summary,
            scope="admin",
            answer=answer,
            handler=handler,
            body=body,
            tag="webhooks",
        )

    return [
        admin("GET", f"{API}/webhooks", "All webhooks", shapes.Webhooks, listed),
        admin(
            "POST",
            f"{API}/webhooks",
            "Send events to a URL from now on",
            shapes.WebhookMade,
            add,
            shapes.NewWebhook,
        ),
        admin("DELETE", one, "Remove a webhook", Told, delete),
        admin(
            "GET",
            f"{one}/deliveries",
            "What it was sent, and what became of it",
            shapes.Deliveries,
            deliveries,
        ),
        admin(
            "POST",
            f"{one}/deliveries/{{delivery}}/replay",
            "Send a delivery once more",
            Told,
            replay,
            Nothing,
        ),
    ]


def _of_exports(answers: Answers, exporting: Exporting) -> list[Route]:
    one = f"{API}/crawls/{{crawl}}/exports"

    async def exported(asked: Asked) -> shapes.Exports:
        return exporting.made(answers.catalogue.find(asked.path["crawl"]))

    async def export(asked: Asked) -> shapes.Export:
        return exporting.of(answers.catalogue.find(asked.path["crawl"]), asked.path["export"])

    async def delete_export(asked: Asked) -> Told:
        await exporting.delete(answers.catalogue.find(asked.path["crawl"]), asked.path["export"])
        return Told("deleted")

    async def file_of_export(asked: Asked) -> Path:
        return exporting.file(answers.catalogue.find(asked.path["crawl"]), asked.path["export"])

    return [
        _read(one, "Exports that were made", shapes.Exports, exported),
        Route(
            method="POST",
            path=one,
            summary="Make an export",
            scope="steer",
            answer=shapes.Export,
            body=shapes.NewExport,
            handler=lambda asked: exporting.create(answers.catalogue.find(asked.path["crawl"]), asked.body),
            status=202,
        ),
        _read(f"{one}/{{export}}", "One export", shapes.Export, export),
        Route(method="DELETE", path=f"{one}/{{export}}", summary="Remove an export", scope="steer", answer=Told, handler=delete_export),
        _read(f"{one}/{{export}}/file", "The file of an export that is done", Path, file_of_export),
    ]  # fmt: skip


def _read(path: str, summary: str, answer: type, handler: Handler, query: type[Struct] = Nothing) -> Route:
    return Route(
        method="GET", path=path, summary=summary, scope="read", answer=answer, handler=handler, query=query
    )


def _of_crawls(answers: Answers, steering: Steering, commands: Commands) -> list[Route]:
    one = f"{API}/crawls/{{crawl}}"

    async def health(_: Asked) -> Health:
        return Health(version=skitter.__version__)

    async def create(asked: Asked) -> Crawl:
        return await answers.crawl(await steering.create(asked.body))

    def of_crawl(ask: Callable[..., Awaitable[Any]]) -> Handler:
        async def handler(asked: Asked) -> Any:  # noqa: ANN401  the table says what it is
            return await ask(asked.path["crawl"], asked.query)

        return handler

    return [
        Route(method="GET", path="/healthz", summary="Is the server there?", scope="", answer=Health, handler=health, tag="server"),
        Route(method="GET", path=f"{API}/openapi.json", summary="This document", scope="read", answer=dict, tag="server"),
        Route(method="GET", path=f"{API}/events", summary="All crawls, whenever something about them has changed (Server-Sent Events)", scope="read", answer=None),
        _read(f"{API}/crawls", "All crawls: state with reason, numbers, and what may be done", shapes.Crawls, lambda _: answers.crawls()),
        Route(method="POST", path=f"{API}/crawls", summary="Start a crawl", scope="steer", answer=Crawl, body=NewCrawl, handler=create, status=201),
        _read(one, "One crawl", Crawl, lambda asked: answers.crawl(asked.path["crawl"])),
        _read(f"{one}/pages", "Stored pages, by filters", shapes.Listing, of_crawl(answers.pages), shapes.PagesAsked),
        _read(f"{one}/page", "One stored page, in any spelling of its URL", dict, of_crawl(answers.page), shapes.PageAsked),
        _read(f"{one}/queue", "URLs that wait", shapes.Listing, of_crawl(answers.queue), shapes.QueueAsked),
        _read(f"{one}/hosts", "Hosts: clocks, counts, and which are set aside and why", shapes.Listing, of_crawl(answers.hosts), shapes.HostsAsked),
        _read(f"{one}/errors", "Failures and refusals by cause, with what to do about them", shapes.Causes, lambda asked: answers.causes(asked.path["crawl"])),
        _read(f"{one}/failures", "URLs that failed", shapes.Listing, of_crawl(answers.failures), shapes.FailuresAsked),
        _read(f"{one}/why", "Every decision about a URL", dict, of_crawl(answers.why), shapes.UrlAsked),
        _read(f"{one}/search", "Full-text search", shapes.Found, lambda asked: commands.search(answers.catalogue.find(asked.path["crawl"]), asked.query), shapes.SearchAsked),
        _read(f"{one}/events", "What happened, in order", shapes.Events, of_crawl(answers.events), shapes.EventsAsked),
        Route(method="GET", path=f"{one}/events/stream", summary="What happens, as Server-Sent Events; Last-Event-ID goes on behind an event", scope="read", answer=None),
        Route(
            method="POST",
            path=f"{one}/actions/{{action}}",
            summary="Tell a crawl what to do: pause, continue, stop, resume, block, unblock, retry or add",
            scope="steer",
            answer=Told,
            body=Orders,
            handler=lambda asked: steering.act(asked.path["crawl"], asked.path["action"], asked.body),
        ),
    ]  # fmt: skip
