"""Runs of pi, and any run of any loop, for tests of the events that are told of them."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from simloop import Http, Reply, Result, Scenario, ScriptedTool, ToolExecution, run
from simloop.kernel.policies import ToolOrder
from simloop.runs.conversation import event_view
from simloop.scenario.expect import Expect
from simloop.scenario.replies import StreamFault
from simloop.scenario.triggers import Trigger

SECOND = 10**9
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
TOOLS = {
    "look": ScriptedTool(parameters={"at": "string?"}, returns="found", takes="1s"),
    "now": ScriptedTool(returns="noon", details={"zone": "UTC"}),
    "fail": ScriptedTool(raises="no disk", takes="2s"),
}


def scenario(*model: Reply, **settings: Any) -> Scenario:
    return Scenario(prompt="Go.", loop="pi", tools=TOOLS, model=list(model), **settings)


def types(events: Iterable[Any]) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in events]


REPLIES = st.one_of(
    st.builds(
        lambda calls, finish: Reply(say="Hm.", call=[{name: {}} for name in calls], finish=finish),
        st.lists(st.sampled_from(["look", "now", "fail", "unknown"]), min_size=1, max_size=3),
        st.sampled_from([None, "stop", "length", "error", "content_filter", "odd"]),
    ),
    st.just(Reply(http=Http(status=500))),
    st.just(Reply(say="Hm.", call={"now": {}}, error=StreamFault(message="broken"))),
    st.just(Reply(say="Hm.", call={"now": {}}, unfinished=True)),
)
MOMENTS = st.one_of(
    st.none(),
    st.builds(lambda at: Trigger(at=f"{at * 500}ms"), st.integers(0, 12)),
    st.builds(
        lambda after, nth: Trigger(after=after, nth=nth),
        st.sampled_from(["request", "part", "tool-started", "tool-result", "transition"]),
        st.integers(1, 6),
    ),
)
PI = ("pi", "pi@0.87.1")
ORDERS = st.sampled_from([None, PARALLEL])


@st.composite
def runs(draw: st.DrawFn, *loops: str) -> tuple[Scenario, Result]:
    """Any run of one of these loops, stopped anywhere, with replies to spare."""
    loop = draw(st.sampled_from(loops))
    world = scenario(
        *draw(st.lists(REPLIES, max_size=3)),
        Reply(say="Done.", times="always"),
        summaries=[]
        if loop not in {"reference", "pi", "opencode"}
        else [Reply(say="So.", times="always")],
        tool_execution=draw(ORDERS),
        abort=None if loop == "react" else draw(MOMENTS),
        then=draw(st.sampled_from([[], ["And?"]])),
        expect=Expect(unused=1),
    )
    return world, run(world, loop=loop)


def told_by(world: Scenario, result: Result) -> list[Any]:
    view = event_view(world, result.trace.header.loop)
    return [event for line in result.trace.entries for event in view.feed(line)]
