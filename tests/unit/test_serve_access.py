"""Who may use the API: tokens, browsers, programs of the same user; foreign hosts and origins get nothing."""

import stat

import pytest

from skitter.ports import StateError
from skitter.serve.access import COOKIE, Access, Asker, RateLimit, Sessions
from skitter.serve.problems import ProblemError
from skitter.serve.tokens import PREFIX, TokenFile, allows

OURS = "127.0.0.1:8642"


@pytest.fixture
def tokens(tmp_path):
    return TokenFile(tmp_path / "own" / "tokens.json")


def asker(method="GET", *, own=False, cookies=None, query=(), **headers):
    fields = {"host": OURS} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Asker(method, fields, query, "127.0.0.1", own, cookies or {})


def refused(access, *words, wanted="read", **more):
    with pytest.raises(ProblemError) as problem:
        access.check(asker(*words, **more), wanted, now=1000.0)
    return problem.value.status


def test_without_a_token_nothing_is_answered_but_what_needs_none(tokens):
    access = Access([OURS], tokens)
    assert refused(access) == 401
    access.check(asker(), "", now=1000.0)


def test_a_token_allows_its_scope_and_those_below(tokens):
    access = Access([OURS], tokens)
    text = tokens.create("a", "steer", 100.0, now=950.0)
    assert text.startswith(PREFIX)
    bearer = f"Bearer {text}"
    access.check(asker(authorization=bearer), "read", now=1000.0)
    access.check(asker(authorization=bearer), "steer", now=1000.0)
    assert refused(access, authorization=bearer, wanted="admin") == 403
    with pytest.raises(ProblemError):
        access.check(asker(authorization=bearer), "read", now=1050.0)  # it has expired


@pytest.mark.parametrize("header", ["Bearer skt_wrong", "Bearer ", "Basic YTpi", "Bearer \x00", "skt_"])
def test_a_wrong_token_is_refused_even_for_a_program_of_the_same_user(tokens, header):
    tokens.create("a", "admin", None)
    assert refused(Access([OURS], tokens), own=True, authorization=header) == 401


def test_a_token_in_a_url_is_refused_though_it_is_right(tokens):
    text = tokens.create("a", "admin", None)
    access = Access([OURS], tokens)
    for name in ("token", "access_token"):
        assert refused(access, query=[name], authorization=f"Bearer {text}") == 400


def test_a_program_of_the_same_user_needs_none_and_a_browser_does(tokens):
    access = Access([OURS], tokens)
    access.check(asker(own=True), "admin", now=1000.0)
    assert refused(access, own=True, origin=f"http://{OURS}") == 401
    assert refused(access, own=True, sec_fetch_site="same-origin") == 401
    assert refused(Access([OURS], tokens, always_token=True), own=True) == 401


@pytest.mark.parametrize(
    "host", ["evil.example:8642", "127.0.0.1", "127.0.0.1:80", "", "localhost.evil.example:8642"]
)
def test_a_name_that_is_not_ours_is_refused_whoever_asks(tokens, host):
    assert refused(Access([OURS], tokens), own=True, host=host, wanted="") == 421


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost.evil:8642", "file://"],
)
def test_a_page_of_another_origin_is_refused_even_with_a_token(tokens, origin):
    text = tokens.create("a", "admin", None)
    access = Access([OURS], tokens)
    for method in ("GET", "POST"):
        assert refused(access, method, origin=origin, authorization=f"Bearer {text}") == 403
    assert refused(access, sec_fetch_site="cross-site", authorization=f"Bearer {text}") == 403


def test_a_code_opens_one_session_once_and_for_a_while():
    sessions = Sessions()
    code = sessions.code(now=0.0)
    assert sessions.enter("other", now=1.0) == ""
    session = sessions.enter(code, now=1.0)
    assert sessions.is_open(session, now=2.0)
    assert sessions.enter(code, now=2.0) == ""
    assert not sessions.is_open(session, now=1e6)
    late = sessions.code(now=0.0)
    assert sessions.enter(late, now=601.0) == ""


def test_a_session_changes_something_only_from_its_own_origin(tokens):
    access = Access([OURS], tokens)
    session = access.sessions.enter(access.sessions.code(999.0), 999.0)
    known = {COOKIE: session}
    access.check(asker(cookies=known), "read", now=1000.0)
    access.check(asker("POST", cookies=known, origin=f"http://{OURS}"), "steer", now=1000.0)
    assert refused(access, "POST", cookies=known, wanted="steer") == 401
    assert refused(access, cookies={COOKIE: "made-up"}) == 401


def test_only_hashes_are_kept_in_a_file_of_the_owner_alone(tokens):
    text = tokens.create("a", "read", None)
    assert text not in tokens.path.read_text()
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    with pytest.raises(StateError, match="already"):
        tokens.create("a", "read", None)
    tokens.path.chmod(0o644)
    with pytest.raises(StateError, match="chmod 600"):
        TokenFile(tokens.path).tokens()


def test_a_revoked_token_is_refused_at_once(tokens):
    text = tokens.create("a", "read", None)
    other = TokenFile(tokens.path)
    assert other.scope_of(text, 0.0) == "read"
    assert tokens.revoke("a")
    assert other.scope_of(text, 0.0) == ""
    assert not tokens.revoke("a")


def test_scopes_include_those_below_and_nothing_else():
    assert [allows("steer", wanted) for wanted in ("read", "steer", "admin")] == [True, True, False]
    assert not allows("", "read")
    assert not allows("root", "read")


def test_the_rate_of_one_asker_is_limited_and_that_of_others_is_not():
    limit = RateLimit(rate=2.0, burst=3.0)
    assert [limit.wait("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limit.wait("a", 0.0) == pytest.approx(0.5)
    assert limit.wait("b", 0.0) == 0.0
    assert limit.wait("a", 0.5) == 0.0
    for number in range(5000):
        limit.wait(str(number), 1.0)
    assert len(limit._left) <= 1000
