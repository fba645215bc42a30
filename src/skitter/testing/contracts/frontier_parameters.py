"""What is learned of parameters is kept with the shard, holds for every URL of the host, and can be undone."""

from typing import Any

from msgspec.structs import replace

from skitter import reasons
from skitter.model import Page, State, Verdict, Visit
from skitter.schedule.learning.parameters import NEEDLESS, WRONG, without
from skitter.testing.contracts.owner import Ground, Owner, asynchronous, link, page
from skitter.testing.web.words import dice, paragraphs

SITE = "https://a.example/"
GROUPS = 60


async def _alone(ground: Ground) -> Owner:
    """An owner that learns of parameters alone: a pattern of which most members repeat others would be parked."""
    grounds: Any = ground
    learning = replace(grounds.settings.learning, patterns=False, parameters=True)
    grounds.settings = replace(grounds.settings, learning=learning)
    return await Owner.of(ground)


async def _let_in(origins: object) -> dict[str, object]:
    return {origin: lambda _url: None for origin in origins}  # type: ignore[attr-defined]


def _answer(visit: Visit, *, ignores: str) -> Page:
    """A page whose content follows from its URL without a parameter."""
    shown = without(visit.link.key, ignores)[0]
    text = " ".join(paragraphs(dice(shown), 120))
    return replace(page(visit, digest=f"sha1:{shown}"), text=text)


async def _visit_all(owner: Owner, *, ignores: str = "ref") -> tuple[list[str], list[str]]:
    """Visit everything: what was requested, and what was refused without a request."""
    asked, refused = [], []
    while visits := await owner.lease_pages(1):
        visit = visits[0]
        if visit.spent is not None:
            verdict = Verdict(state=State.REFUSED, reason=visit.spent.reason, attempted=False)
            await owner.settle(visit, verdict)
            refused.append(visit.link.url)
        else:
            await owner.store(visit, _answer(visit, ignores=ignores))
            asked.append(visit.link.url)
    return asked, refused


def _token(number: int) -> str:
    return f"{number * 2654435761 % 2**40:012x}"


def _both(numbers: range) -> list[str]:
    """URLs of pages, and the same with a parameter."""
    return [f"{SITE}page?id={n}{more}" for n in numbers for more in ("", f"&ref={_token(n)}")]


class ParameterContract:
    """A frontier learns of parameters, whatever it is stored in."""

    @asynchronous
    async def test_what_repeats_a_page_by_a_needless_parameter_is_not_fetched(self, ground: Ground) -> None:
        owner = await _alone(ground)
        await owner.add(*_both(range(GROUPS)))
        asked, refused = await _visit_all(owner)
        assert set(asked) >= {url for url in _both(range(GROUPS)) if "ref" not in url}
        assert len(refused) > GROUPS // 3  # those that waited when it was learned
        assert all("&ref=" in url for url in refused)
        record = await owner.url(refused[0])
        assert record.state is State.REFUSED
        assert record.reason is not None
        assert record.reason.code == reasons.REPEAT_PARAMETER
        assert "the parameter ref changes nothing here: 20 of 20 groups" in record.reason.detail
        assert (await owner.frontier.counts()).refused == {reasons.REPEAT_PARAMETER: len(refused)}

    @asynchronous
    async def test_what_was_learned_outlives_its_owner(self, ground: Ground) -> None:
        owner = await _alone(ground)
        await owner.add(*_both(range(GROUPS)))
        await _visit_all(owner)
        owner = await owner.killed(after=60.0)
        learned = await owner.frontier.learned("a.example")
        assert learned is not None
        assert learned.parameters["ref"].state == NEEDLESS
        assert learned.parameters.keys() <= {"ref", "id"}
        await owner.add(*(f"{SITE}page?id={n}&ref=new{_token(n)}" for n in range(GROUPS)))
        asked, refused = await _visit_all(owner)
        assert len(refused) > GROUPS * 0.8
        assert len(asked) + len(refused) == GROUPS

    @asynchronous
    async def test_what_is_known_in_no_other_way_is_fetched_once_and_a_seed_always(
        self, ground: Ground
    ) -> None:
        owner = await _alone(ground)
        await owner.add(*_both(range(GROUPS)))
        await _visit_all(owner)
        await owner.add(*(f"{SITE}page?id=x{n}&ref={_token(n)}" for n in range(20)))
        assert len((await _visit_all(owner))[0]) == 20
        await owner.add(*(f"{SITE}page?id=x{n}&ref=more{_token(n)}" for n in range(20)))
        assert len((await _visit_all(owner))[1]) >= 18  # one in a hundred is fetched all the same
        await owner.add(link(f"{SITE}page?id=x1&ref=named", seed=True))
        assert await _visit_all(owner) == ([f"{SITE}page?id=x1&ref=named"], [])

    @asynchronous
    async def test_a_rule_that_was_wrong_is_undone_and_what_it_kept_out_comes_back(
        self, ground: Ground
    ) -> None:
        owner = await _alone(ground)
        await owner.add(*_both(range(GROUPS)))
        _, before = await _visit_all(owner)
        assert before
        # From now on the parameter matters. About one URL in a hundred is fetched all the same, and shows it.
        kept_out: list[str] = []
        for number in range(GROUPS, GROUPS + 2000):
            await owner.add(f"{SITE}page?id={number}", f"{SITE}page?id={number}&ref={_token(number)}")
            kept_out += (await _visit_all(owner, ignores="nothing"))[1]
            if owner.frontier.has_new_rules():
                break
        learned = await owner.frontier.learned("a.example")
        assert learned is not None
        assert (learned.parameters["ref"].state, learned.wrong) == (WRONG, 1)
        owner = await owner.killed(after=60.0)
        assert owner.frontier.has_new_rules()
        came = await owner.frontier.judge_by_rules(_let_in, owner.now)  # type: ignore[arg-type]
        assert came == (len(before) + len(kept_out), 0)
        asked, refused = await _visit_all(owner, ignores="nothing")
        assert set(asked) == {*before, *kept_out}
        assert refused == []
