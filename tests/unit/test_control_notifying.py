"""Messages about alerts: at least once, signed, and never to where strangers could lead us."""

import asyncio
import hashlib
import hmac
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skitter.control import notifying
from skitter.control.notifying import Notifier, read
from skitter.control.webhook import post
from skitter.reporting.alerting.standing import Alert
from skitter.runtime.clock import SystemClock
from skitter.settings import FetchSettings, Settings, SettingsError
from skitter.settings.file import load

ALERT = Alert(name="disk_low", severity="critical", summary="9% of the disk is free", since=5.0)
BODY = {"alert": "disk_low", "state": "firing"}
LOOPBACK = ("127.0.0.0/8",)


class Hook:
    """A receiver that answers with these statuses, the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses or (204,))
        self.got: list[tuple[dict[str, str], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
        self.got.append((fields, await reader.readexactly(int(fields["content-length"]))))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        more = "Location: http://127.0.0.1/elsewhere\r\n" if status == 302 else ""
        writer.write(f"HTTP/1.1 {status} X\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    @asynccontextmanager
    async def listening(self):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?x=1"
        finally:
            server.close()


def settings(**values: object) -> Settings:
    return load(None, {}, {f"alerts.{name}": value for name, value in values.items()})


def notifier(path: Path, complaints: list[str], **values: object) -> Notifier:
    return Notifier(path / "alerts.json", settings(**values), SystemClock(), complaints.append)


async def until(holds) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


def run(work):
    return asyncio.run(asyncio.wait_for(work, 60))


def test_a_webhook_gets_the_message_signed_over_time_and_body(tmp_path, monkeypatch):
    monkeypatch.setenv("SKITTER_ALERTS_SECRET", "s3cret")

    async def main():
        hook = Hook()
        async with hook.listening() as url:
            sender = notifier(tmp_path, [], webhook=url, allow_private=LOOPBACK)
            sender.tell([ALERT], [BODY])
            await sender.flush(20)
        ((fields, body),) = hook.got
        message = json.loads(body)
        assert (message["alert"], message["state"], len(message["id"])) == ("disk_low", "firing", 32)
        assert fields["content-type"] == "application/json"
        assert fields["skitter-delivery"] == f"{message['id']}-webhook"
        time, _, mark = fields["skitter-signature"].removeprefix("t=").partition(",v1=")
        assert mark == hmac.new(b"s3cret", f"{time}.".encode() + body, hashlib.sha256).hexdigest()
        assert "skitter" in fields["user-agent"]
        kept = read(tmp_path / "alerts.json")
        assert (list(kept.firing), list(kept.unsent)) == ([ALERT], [])

    run(main())


def test_what_is_not_taken_is_sent_again_until_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(notifying, "_PAUSES", (0.01, 0.02))

    async def main():
        hook, complaints = Hook(500, 302, 429, 200), []
        async with hook.listening() as url:
            sender = notifier(tmp_path, complaints, webhook=url, allow_private=LOOPBACK)
            sender.tell([], [BODY])
            task = asyncio.create_task(sender.run())
            await until(lambda: not read(tmp_path / "alerts.json").unsent)
            task.cancel()
        assert len({fields["skitter-delivery"] for fields, _ in hook.got}) == 1
        assert len(hook.got) == 4, "a redirect is not followed, and nothing but 2xx counts"
        assert complaints == ["an alert could not be sent (webhook: it answered 500); it is tried again"]

    run(main())


def test_a_message_survives_the_process_and_arrives_from_the_next(tmp_path):
    async def main():
        hook = Hook()
        async with hook.listening() as url:
            first = notifier(tmp_path, [], webhook=url, allow_private=LOOPBACK)
            first.tell([ALERT], [BODY, BODY])  # and then it is killed
            second = notifier(tmp_path, [], webhook=url, allow_private=LOOPBACK)
            assert list(second.firing) == [ALERT]
            await second.flush(20)
        assert [json.loads(body)["alert"] for _, body in hook.got] == ["disk_low"] * 2

    run(main())


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/x",
        "http://localhost:8080/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:8080/x",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://2130706433/",
        "http://10.1.2.3/",
    ],
)
def test_a_webhook_is_not_sent_to_this_machine_or_a_private_network(url):
    async def main():
        return await post(url, b"{}", "id", FetchSettings(), SystemClock())

    assert "not a public address" in run(main())


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "https://user:secret@example.org/",
        "example.org",
        "https://exämple.org/ x",
        "file:///etc/passwd",
    ],
)
def test_a_webhook_that_is_no_web_address_is_refused_at_once(url):
    with pytest.raises(SettingsError, match=r"alerts\.webhook: .* is not http\(s\)://HOST/PATH"):
        settings(webhook=url)


def test_a_command_gets_the_message_on_its_standard_input(tmp_path):
    script = "import os,sys; open(sys.argv[1],'w').write(os.environ['SKITTER_ALERT_STATE']+sys.stdin.read())"

    async def main():
        sender = notifier(tmp_path, [], command=[sys.executable, "-c", script, str(tmp_path / "said")])
        sender.tell([], [BODY])
        await sender.flush(30)

    run(main())
    said = (tmp_path / "said").read_text()
    assert said.startswith("firing{")
    assert json.loads(said.removeprefix("firing"))["alert"] == "disk_low"


@pytest.mark.parametrize(
    ("command", "why"),
    [(["/nowhere/at/all"], "No such file"), ([sys.executable, "-c", "raise SystemExit(3)"], "exit code 3")],
)
def test_a_command_that_fails_keeps_the_message(tmp_path, command, why):
    complaints: list[str] = []

    async def main():
        sender = notifier(tmp_path, complaints, command=command)
        sender.tell([], [BODY])
        await sender.flush(30)

    run(main())
    assert why in complaints[0]
    assert len(read(tmp_path / "alerts.json").unsent) == 1


def test_a_file_of_another_version_is_passed_over(tmp_path):
    (tmp_path / "alerts.json").write_text('{"firing": 7}')
    assert read(tmp_path / "alerts.json").firing == ()


def test_without_a_receiver_only_the_state_is_kept(tmp_path):
    async def main():
        sender = notifier(tmp_path, [])
        sender.tell([ALERT], [BODY])

    run(main())
    kept = read(tmp_path / "alerts.json")
    assert (list(kept.firing), list(kept.unsent)) == ([ALERT], [])
