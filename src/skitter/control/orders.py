"""What a person may ask of a running crawl: requests and answers on the socket, hosts and URLs, and words about results."""

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from skitter import urls
from skitter.ports import Command, Do, Obeyed
from skitter.reporting.format import counted, printable
from skitter.seeds import without_credentials

_NOT_IN_A_HOST = re.compile(r"[/\\@?#*\s\x00-\x1f]")
_SHOWN = 100  # characters of bad input in a message


class BadOrderError(Exception):
    """A request that cannot be carried out. The message says why in one line; nothing was changed."""


# ------------------------------------------------------------------------------------------------ on the socket


class _Request(Struct, frozen=True, tag_field="do", tag=str.lower, forbid_unknown_fields=True):
    pass


class Pause(_Request, frozen=True):
    """Fetch nothing new."""


class Continue(_Request, frozen=True):
    """Fetch again."""


class Stop(_Request, frozen=True):
    """Finish what is in flight, save, and end, as Ctrl-C would."""


class Block(_Request, frozen=True):
    """No request to these hosts."""

    hosts: Sequence[str]


class Unblock(_Request, frozen=True):
    """Requests to these hosts again."""

    hosts: Sequence[str]


class Retry(_Request, frozen=True):
    """What failed waits again: these URLs, everything on these hosts, or everything."""

    urls: Sequence[str] = ()
    hosts: Sequence[str] = ()
    failed: bool = False


class Add(_Request, frozen=True):
    """More seeds, as lines of a seed file; `name` and `line` say where the first one is from."""

    seeds: Sequence[str]
    name: str = ""
    line: int = 1


class Reload(_Request, frozen=True):
    """Other settings, all of them, as TOML."""

    settings: str


class Follow(_Request, frozen=True):
    """Progress and events, line by line, until the crawl ends."""


Request = Pause | Continue | Stop | Block | Unblock | Retry | Add | Reload | Follow
_decode_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def request_of(line: bytes) -> Request:
    """The request on a line. BadOrderError if there is none."""
    try:
        return _decode_request.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadOrderError(f"this is no request: {problem}") from None


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to a request, one line: what happened, or why nothing did."""

    said: str = ""
    error: str = ""
    changed: int | None = None  # hosts, URLs or seeds; None: not known yet, or there is nothing to count
    complaints: Sequence[str] = ()  # about seeds that cannot be used
    wrong: bool = False  # the error is in what was asked for, not in the crawl


# ------------------------------------------------------------------------------------------------ hosts and URLs


def host_of(text: str) -> str:
    """The name of a host as typed by a person, in the form used everywhere else."""
    shown = printable(text.strip()[:_SHOWN])
    if _NOT_IN_A_HOST.search(text.strip()):
        raise BadOrderError(f"{shown!r} is not a host; write one exact name, for example example.org")
    url = urls.seed(f"https://{text.strip()}/")
    name = "" if url is None else urls.host(url)
    if url is None or not name or urls.too_long(name):
        raise BadOrderError(f"{shown!r} is not a host; write for example example.org")
    if urls.origin(url) != f"https://{name}":
        raise BadOrderError(f"{shown!r} names a port; a host is controlled as a whole: write it without")
    return name


def url_of(text: str, rules: urls.UrlRules) -> tuple[str, str]:
    """The key and the host of a URL as typed by a person."""
    url = urls.seed(text, rules)
    key = None if url is None else urls.key(url, rules)
    if url is None or key is None or urls.too_long(urls.host(url)):
        shown = printable(without_credentials(text)[:_SHOWN])
        raise BadOrderError(f"{shown!r} is not an http or https URL; write for example https://example.org/")
    return key, urls.host(url)


def command_of(request: Request, rules: urls.UrlRules, at: float) -> Command:
    """The command that a request stands for, without its number. BadOrderError if it makes no sense."""
    match request:
        case Pause():
            return Command(0, Do.PAUSE, at=at)
        case Continue():
            return Command(0, Do.CONTINUE, at=at)
        case Block(hosts) | Unblock(hosts):
            if not hosts:
                raise BadOrderError("no host is named; write for example example.org")
            do = Do.BLOCK if isinstance(request, Block) else Do.UNBLOCK
            return Command(0, do, _once(map(host_of, hosts)), at=at)
        case Retry(named, hosts, failed):
            if not (named or hosts or failed):
                raise BadOrderError("nothing to retry is named; name URLs, --host HOST, or --failed")
            keys = list(dict.fromkeys(url_of(text, rules) for text in named))
            return Command(0, Do.RETRY, _once(map(host_of, hosts)), keys, failed, at)
        case _:
            raise AssertionError(request)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


# ------------------------------------------------------------------------------------------------ results


def is_paused(commands: Iterable[Command]) -> bool:
    """Whether the last word on pausing was to pause."""
    last = [command.do for command in commands if command.do in (Do.PAUSE, Do.CONTINUE)][-1:]
    return last == [Do.PAUSE]


def added_up(number: int, results: Iterable[Obeyed]) -> Obeyed:
    """What a command has changed in all shards."""
    ours = [each for each in results if each.number == number]
    return Obeyed(number, sum(each.changed for each in ours), sum(each.same for each in ours))


def in_words(command: Command, result: Obeyed, *, whole: bool = True) -> str:
    """What a command has done. Not `whole`: some shards have not answered yet."""
    if not whole and not result.changed:
        return {
            Do.BLOCK: f"{counted(len(command.hosts), 'host')} will be blocked in a moment",
            Do.UNBLOCK: f"{counted(len(command.hosts), 'host')} will be unblocked in a moment",
            Do.RETRY: "what failed is being looked up, and waits again in a moment",
            Do.REFRESH: "what was answered is being looked up, and waits again in a moment",
        }[command.do]
    changed, same = result.changed, result.same
    more = "" if whole else "; not all workers have answered yet"
    was = "was" if same == 1 else "were"
    if command.do is Do.BLOCK:
        already = f" ({same} {was} blocked already)" if same else ""
        return f"{counted(changed, 'host')} blocked{already}{more}"
    if command.do is Do.UNBLOCK:
        already = f" ({same} {was} not blocked)" if same else ""
        return f"{counted(changed, 'host')} unblocked{already}{more}"
    return f"{counted(changed, 'URL')} {'waits' if changed == 1 else 'wait'} again{more}"
