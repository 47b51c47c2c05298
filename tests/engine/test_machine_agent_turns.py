"""One schedule: a background task gets the same turns, whether or not somebody watches the run."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacing import nap, paced

from simloop import Hooks, Http, Outcome, Reply, Scenario, ToolExecution, simulate
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import Request
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.entries import AnyEntry

Turns = Sequence[tuple[int, str]]
"""What a background task does: it waits for so many turns, then it acts as the user."""


def act(user: Simulation, action: str) -> None:
    if action == "abort":
        user.abort()
    else:
        user.queue(action)


class Background:
    """A tool that starts a task, which acts after some turns and never waits for time."""

    def __init__(self, plan: Turns) -> None:
        self.plan = plan
        self.user: Simulation
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> str:
        if not self.tasks:
            self.tasks.append(asyncio.create_task(self._act()))
        return "started"

    async def _act(self) -> None:
        for turns, action in self.plan:
            for _ in range(turns):
                await asyncio.sleep(0)
            act(self.user, action)


async def look() -> str:
    return str(await nap(5, "seen"))


def script(replies: Sequence[Reply]) -> Callable[[Request], Reply]:
    left = iter([Reply(call={"start": {}}), *replies])
    return lambda _: next(left, Reply(say="Done."))


def code(background: Background, replies: Sequence[Reply]) -> RunOptions:
    return {
        "model": script(replies),
        "tools": [background.start, look],
        "hooks": Hooks(before_tool_call=[lambda _: None], after_llm_call=[lambda _: None]),
    }


async def alone(scenario: Scenario, background: Background, given: RunOptions) -> list[AnyEntry]:
    run = background.user = Simulation(Plan(scenario, given))
    await run.send("Go.")
    return run.trace.entries


async def listened_to(
    scenario: Scenario, background: Background, given: RunOptions
) -> list[AnyEntry]:
    run = background.user = Simulation(Plan(scenario, given))
    seen: list[AnyEntry] = []
    run.listen(seen.append)
    await run.send("Go.")
    assert seen == run.trace.entries
    return run.trace.entries


WATCHERS = {"alone": alone, "listened to": listened_to}
watched = pytest.mark.parametrize("watcher", WATCHERS)
RETRIES = ExponentialBackoff(initial_delay_ms=5)


def play(
    watcher: str, plan: Turns, replies: Sequence[Reply], policy: ToolExecution | None = None
) -> list[AnyEntry]:
    scenario = Scenario(prompt="Go.", retry=RETRIES, tool_execution=policy or ToolExecution())
    background = Background(plan)
    recorded = simulate(WATCHERS[watcher](scenario, background, code(background, replies)))
    end = next(i for i, entry in enumerate(recorded) if isinstance(entry, entries.Ended))
    return recorded[: end + 1]  # the task may go on after the run


def outcome(recorded: list[AnyEntry]) -> Outcome:
    last = recorded[-1]
    assert isinstance(last, entries.Ended)
    return last.outcome


LONG = Reply(say=["word "] * 40)


@watched
@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 20])
def test_an_abort_by_a_background_task_takes_effect_watched_or_not(
    watcher: str, turns: int
) -> None:
    recorded = play(watcher, [(turns, "abort")], [LONG])
    assert outcome(recorded) is Outcome.ABORTED
    assert recorded == play("alone", [(turns, "abort")], [LONG])


@watched
def test_a_background_task_gets_a_turn_before_each_part(watcher: str) -> None:
    parts = []
    for turns in range(20):
        recorded = play(watcher, [(turns, "abort")], [LONG])
        parts.append(sum(isinstance(entry, entries.TextDelta) for entry in recorded))
    arrived = [count for count in parts if count]
    assert arrived == list(range(1, len(arrived) + 1))
    assert len(arrived) > 10


def test_a_background_task_gets_a_turn_after_each_decision_and_before_its_effects() -> None:
    seen: set[int] = set()
    tools = {"start": lambda: "started", "look": lambda: "seen"}
    options: RunOptions = {
        "model": script([Reply(say="Hm.", call={"look": {}})]), "tools": tools,
    }  # fmt: skip

    async def main() -> list[AnyEntry]:
        run = Simulation(Plan(Scenario(prompt="Go."), options))
        running = asyncio.create_task(run.send("Go."))
        while not running.done():
            seen.add(len(run.trace.entries))
            await asyncio.sleep(0)
        return run.trace.entries

    recorded = simulate(main())
    decided = [e.seq for e in recorded if isinstance(e, entries.Transition)]
    assert len(decided) > 6
    assert [seq for seq in decided[:-1] if seq + 1 not in seen] == []


REPLIES = st.sampled_from(
    [
        Reply(say="One two three.", call={"look": {}}),
        Reply(say="One two.", call={"start": {}, "look": {}}, pace=paced(per_part="1ms")),
        Reply(call=[{"start": {}}, {"start": {}}]),
        Reply(say="Half.", call={"look": {}}, lost="mid-output"),
        Reply(http=Http(status=503)),
        Reply(say="Done."),
    ]
)
POLICIES = st.builds(
    ToolExecution,
    order=st.sampled_from(["sequential", "parallel"]),
    start=st.sampled_from(["after-reply", "when-called"]),
)
PLANS = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(["One.", "Two.", "abort"])), max_size=4
)


@given(PLANS, st.lists(REPLIES, max_size=4), POLICIES)
def test_watching_changes_nothing_in_any_run(
    plan: Turns, replies: list[Reply], policy: ToolExecution
) -> None:
    unwatched = play("alone", plan, replies, policy)
    assert play("listened to", plan, replies, policy) == unwatched


# ------------------------------------------------------------------------- agents without a machine
