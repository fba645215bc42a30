"""The delay that listens: how a host's answers change the delay between requests to it. Pure: pace in, pace out.

The delay after a response is the longest of three: the floor (our own delay, or what robots.txt asks for), a multiple of
the time that the host's answers take, and the wait learnt from trouble. The wait doubles after a 429, a 503, a time-out or
a reset, and while answers take several times as long as this host's usually do. It shrinks by a tenth after ten good
answers, never below the floor. An error may slow us down and never speeds us up, however fast it comes.

A host that fails many times in a row is parked: it gets one request after each pause, the pauses grow, and after the last
it is given up. Such a failure is the host's and does not count as an attempt of the page that met it. The other way round,
a page that fails again while others succeed is at fault itself, and slows down nobody.

With a floor of 0 (a server of one's own) times do not count; trouble does.
"""

from msgspec.structs import replace

from skitter import reasons
from skitter.model import Heard, Pace, Reason
from skitter.settings import PolitenessSettings

REFUSED = "429"
DOUBLING = frozenset({REFUSED, "503", "timeout", "reset"})
"""Signs that the server is overloaded, or says so: each doubles the wait."""
SLOW = "slow"  # the cause of a wait that doubled because answers took long
NO_PAGE = "error"  # the sign of an answer that says nothing about the server's health: 404 and the like

_SMOOTH = 0.2  # weight of one answer in the latency: with _AT_MOST, one slow answer alone is no alarm (0.8 + 0.2 × 10 < 3)
_AT_MOST = 10.0  # times the latency so far: what one answer counts at most
_LONG_TERM = (
    0.02  # weight of one answer in the baseline: after some fifteen, a lasting change is the usual case
)
_FIRST = 4  # answers before the baseline means something; until then it is their mean
_NOTICEABLE = 0.05  # seconds: faster than this, three times as long is no sign of anything
# While answers are slow and nothing worse, doubling stops here: most of the time the server is left alone then.
_EASED_FLOORS = 8.0  # times the floor
_EASED_ANSWERS = 10.0  # times the latency
_NOTHING = 0.01  # seconds: a shorter wait is none


def listen(pace: Pace | None, heard: Heard, floor: float, settings: PolitenessSettings) -> Pace:
    """The pace of a host after an answer, or after none. `floor` is the delay it is owed in any case."""
    pace = _timed(pace or Pace(), heard) if floor else pace or Pace()
    if heard.sign and heard.sign != NO_PAGE:
        return _in_trouble(pace, heard, floor, settings)
    if floor and pace.samples >= _FIRST and _is_slow(pace, settings):
        return _slowed(pace, heard, floor, settings)
    if pace.wait or pace.failures or pace.parked:
        return _after_answer(pace, heard, floor, settings)
    return pace


def delay_of(pace: Pace | None, floor: float, settings: PolitenessSettings) -> float:
    """Seconds between the end of a response and the next request."""
    if pace is None:
        return floor
    slow = min(settings.adaptive_factor * pace.latency, settings.adaptive_max) if floor else 0.0
    return max(floor, pace.wait, slow)


def pause(pace: Pace, settings: PolitenessSettings) -> float:
    """How long a host rests that was just parked."""
    return settings.park[min(pace.parked, len(settings.park)) - 1] if settings.park else 0.0


def parked(pace: Pace, sign: str, settings: PolitenessSettings) -> Reason:
    """Why the pages of a parked host wait."""
    detail = f"the host failed {pace.failures} times in a row ({_told(sign)}); it is left alone for {pause(pace, settings):g} s"
    return Reason(reasons.HOST_PARKED, detail)


def given_up(pace: Pace, sign: str, settings: PolitenessSettings) -> Reason | None:
    """Why a host is given up that was just parked; None if it gets another pause."""
    if pace.parked <= len(settings.park):
        return None
    after = f", {len(settings.park)} of them after pauses (politeness.park)" if settings.park else ""
    return Reason(
        reasons.HOST_FAILING, f"the host failed {pace.failures} times in a row{after}; last: {_told(sign)}"
    )


def _told(sign: str) -> str:
    return f"it answered {sign}" if sign.isdigit() else sign


# ------------------------------------------------------------------------------------------------ steps


def _timed(pace: Pace, heard: Heard) -> Pace:
    """Take the time of an answer into account. An error's may raise the latency and never lowers it."""
    number, latency = pace.samples, pace.latency
    took = max(0.0, heard.ended - heard.started)
    if not number:
        return pace if heard.sign else replace(pace, latency=took, baseline=took, samples=1)
    took = min(took, _AT_MOST * max(latency, _NOTICEABLE / _AT_MOST))
    smoothed = latency + max(_SMOOTH, 1 / (number + 1)) * (took - latency)
    if heard.sign:
        is_answer = heard.sign == NO_PAGE or heard.sign.isdigit()
        return replace(pace, latency=smoothed) if is_answer and smoothed > latency else pace
    weight = _LONG_TERM if number >= _FIRST else 1 / (number + 1)
    baseline = pace.baseline + weight * (took - pace.baseline)
    return replace(pace, latency=smoothed, baseline=baseline, samples=min(number + 1, _FIRST))


def _is_slow(pace: Pace, settings: PolitenessSettings) -> bool:
    return pace.latency > max(settings.adaptive_slow * pace.baseline, _NOTICEABLE)


def _is_late(pace: Pace, heard: Heard) -> bool:
    """Whether the request was sent before the last step: of several in flight together, one counts."""
    return heard.started < pace.changed <= heard.ended


def _in_trouble(pace: Pace, heard: Heard, floor: float, settings: PolitenessSettings) -> Pace:
    late, refused = _is_late(pace, heard), heard.sign == REFUSED
    if heard.again and not pace.failures and not refused:
        return pace  # the page is at fault: others succeeded since it failed before
    failures = pace.failures + heard.parks
    pace = replace(pace, failures=failures, successes=0)
    if heard.sign in DOUBLING and (refused or not late):
        pace = _doubled(pace, heard, floor, settings)
    if heard.parks and failures >= settings.park_after and not late:
        pace = replace(pace, parked=pace.parked + 1, changed=heard.ended)
    return pace


def _doubled(pace: Pace, heard: Heard, floor: float, settings: PolitenessSettings) -> Pace:
    wait = max(2 * delay_of(pace, floor, settings), settings.adaptive_first)
    wait *= 1 + settings.adaptive_jitter * heard.chance
    wait = max(pace.wait, min(wait, max(settings.adaptive_max, floor)))
    return replace(pace, wait=wait, doubled=pace.doubled + 1, cause=heard.sign, changed=heard.ended)


def _slowed(pace: Pace, heard: Heard, floor: float, settings: PolitenessSettings) -> Pace:
    """Answers take far longer than usual, though they come."""
    pace = replace(pace, failures=0, successes=0)
    enough = min(max(_EASED_FLOORS * floor, _EASED_ANSWERS * pace.latency), max(settings.adaptive_max, floor))
    if pace.wait >= enough or _is_late(pace, heard):
        return pace
    wait = 2 * delay_of(pace, floor, settings) * (1 + settings.adaptive_jitter * heard.chance)
    return replace(pace, wait=min(wait, enough), doubled=pace.doubled + 1, cause=SLOW, changed=heard.ended)


def _after_answer(pace: Pace, heard: Heard, floor: float, settings: PolitenessSettings) -> Pace:
    """The host works. Good answers shorten its wait, and in the end its failures are forgotten."""
    if _is_late(pace, heard):
        return pace
    if heard.sign:
        return replace(pace, failures=0)
    if pace.successes + 1 < settings.adaptive_successes:
        return replace(pace, failures=0, successes=pace.successes + 1)
    wait = pace.wait * (1 - settings.adaptive_shrink)
    if wait > max(floor, _NOTHING):
        return replace(pace, wait=wait, failures=0, successes=0, parked=0)
    return Pace(latency=pace.latency, baseline=pace.baseline, samples=pace.samples)
