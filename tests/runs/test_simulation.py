"""One run: its clock, seed and trace, the Python that joins it, aborts and callbacks."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop.engine.hooks import AfterToolCall, BeforeToolCall, Callbacks, Hooks
from simloop.errors import (
    Deadlock,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
)
from simloop.kernel.limits import Limits
from simloop.messages import (
    Finish,
    FinishReason,
    Outcome,
    Request,
    TextDelta,
    ToolMessage,
    ToolResult,
)
from simloop.runs.run import Simulation, arun, run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.virtual.simulate import running_loop, simulate
from simloop.world.tools import Tool
from simloop.world.world import World

HELLO = Scenario(prompt="Hi", model=[Reply(say="Hello.")])
ONE_CALL = parse_scenario("""
prompt: What time is it?
tools: {clock: {returns: "12:00"}}
model:
  - {say: Let me look., call: {clock: {}}}
  - say: It is noon.
""")


def tool_texts(messages: tuple[Any, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


# ---------------------------------------------------------------------- the three ways to run


def test_arun_takes_place_on_the_clock_that_is_running() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{http: {status: 500}}, {say: Hello.}]")

    async def after_lunch() -> tuple[int, int]:
        await asyncio.sleep(3600)
        result = await arun(scenario)
        return result.elapsed_ns, running_loop().now_ns

    assert simulate(after_lunch()) == (2 * 10**9, 3602 * 10**9)


def test_several_runs_share_one_clock_without_sharing_anything_else() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{http: {status: 500}}, {say: Hello.}]")

    async def three() -> list[bytes]:
        results = await asyncio.gather(*(arun(scenario) for _ in range(3)))
        return [encode(result.trace) for result in results]

    assert simulate(three()) == [encode(run(scenario).trace)] * 3


def test_arun_needs_the_virtual_clock() -> None:
    with pytest.raises(ScenarioError, match="this needs the virtual clock"):
        asyncio.run(arun(HELLO))


# ---------------------------------------------------------------------- the trace of a failing run


def test_the_trace_of_a_failing_run_is_kept_and_can_be_read() -> None:
    simulation = Simulation(Scenario(prompt="Hi"))
    with pytest.raises(ScriptExhausted):
        simulation.run()
    kept = decode(encode(simulation.trace))
    assert [type(entry).__name__ for entry in kept.entries][-1] == "Request"
    assert (kept.footer, kept.truncated) == (None, "")
    assert kept.no_end == "the trace has no end: its run had not ended when it was written"


# ---------------------------------------------------------------------- seed and loop


def drawing() -> str:
    return f"{random.random()} {time.time()}"


def test_a_seed_replaces_that_of_the_scenario() -> None:
    scenario = parse_scenario("prompt: x\nseed: 3\nmodel: [{call: {drawing: {}}}, {say: x}]")
    drawn = {
        seed: tool_texts(run(scenario, seed=seed, tools=[drawing]).messages)[0]
        for seed in (None, 3, 4)
    }
    assert drawn[None] == drawn[3] != drawn[4]


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(ScenarioError, match="seed"):
        run(HELLO, seed=seed)


def test_jitter_is_drawn_from_the_seed() -> None:
    scenario = parse_scenario(
        "prompt: x\nretry: {jitter: 0.5}\nmodel: [{http: {status: 500}}, {say: x}]"
    )
    waits = [run(scenario, seed=seed).elapsed_ns for seed in (1, 1, 2)]
    assert waits[0] == waits[1] != waits[2]
    assert all(10**9 < wait <= 2 * 10**9 for wait in waits)


# ---------------------------------------------------------------------- abort


def test_a_tool_can_abort_the_run_and_still_gets_its_result_in() -> None:
    scenario = parse_scenario("""
prompt: x
model: [{say: Wait., call: [{stop: {}}, {clock: {}}]}]
""")

    def stop() -> str:
        simulation.abort()
        return "stopped"

    simulation = Simulation(scenario, tools={"stop": stop, "clock": lambda: "12:00"})
    result = simulation.run()
    assert (result.outcome, result.text) == (Outcome.ABORTED, "Wait.")
    assert tool_texts(result.messages) == [
        "stopped",
        "Error: not finished, the request was aborted",
    ]


# ---------------------------------------------------------------------- callbacks

COMPACTING = parse_scenario("""
prompt: x
tools: {read: {returns: a long text that fills the small window of this run}}
compaction: {window: 40, keep_turns: 1, strategy: drop-oldest}
model:
  - {call: {read: {}}}
  - {think: Hm, say: Again, call: {read: {}}}
  - say: Done
""")


def recording(log: list[str]) -> Callbacks:
    def chunk(part: Any) -> None:
        log.append(f"chunk {type(part).__name__}")

    async def response(messages: tuple[Any, ...]) -> None:
        log.append(f"response {len(messages)}")

    def compacted(before: int, after: int) -> None:
        log.append("compacted" if after < before else "grown")

    return Callbacks(
        on_chunk=chunk,
        on_text=lambda text: log.append(f"text {text}"),
        on_tool_call=lambda call: log.append(f"tool-call {call.name}"),
        on_tool_result=lambda call, result: log.append(f"result {call.id} {result.is_error}"),
        on_step_finish=lambda number, reason: log.append(f"step {number} {reason}"),
        on_response=response,
        on_compacted=compacted,
    )


def test_all_seven_callbacks_fire_in_the_order_of_the_documents() -> None:
    log: list[str] = []
    run(COMPACTING, callbacks=recording(log))
    assert log == [
        *("chunk ToolCallPart", "tool-call read", "chunk Finish"),
        *("chunk ToolResultPart", "result call-1 False", "step 1 tool-calls", "response 2"),
        *("chunk ReasoningDelta", "chunk TextDelta", "text Again"),
        *("chunk ToolCallPart", "tool-call read", "chunk Finish"),
        *("chunk ToolResultPart", "result call-2 False", "step 2 tool-calls", "response 2"),
        "compacted",
        *("chunk TextDelta", "text Done", "chunk Finish", "step 3 stop", "response 1"),
    ]


@pytest.mark.parametrize("name", Callbacks.__struct_fields__)
def test_a_callback_that_raises_is_recorded_and_the_run_goes_on(name: str) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no terminal")

    callbacks: dict[str, Any] = {name: fail}
    result = run(COMPACTING, callbacks=Callbacks(**callbacks))
    records = [entry for entry in result.trace.entries if isinstance(entry, entries.Callback)]
    assert result.text == "Done"
    assert {(entry.callback, entry.detail) for entry in records} == {
        (name, "RuntimeError: no terminal")
    }


AN_ACTION_THAT_WAITS = parse_scenario("""
prompt: Hi
queue: [{after: backoff, say: Never said.}]
model: [{say: Hello.}]
expect: {unused: 1}
""")
A_TOOL_THAT_IS_CANCELLED = parse_scenario("""
prompt: What time is it?
tools: {clock: {hangs: true, timeout: 1s}}
model:
  - call: {clock: {}}
  - say: I cannot tell.
""")


async def answers(_: str, world: World) -> str:
    return (await world.model.reply([])).message.text


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        (HELLO, {}),
        (ONE_CALL, {}),
        (AN_ACTION_THAT_WAITS, {}),
        (A_TOOL_THAT_IS_CANCELLED, {}),
        (HELLO, {"loop": answers}),
    ],
    ids=["no tool", "a tool", "an action that waits", "a cancelled tool", "an agent"],
)
def test_a_run_leaves_nothing_to_the_garbage_collector(
    scenario: Scenario, options: dict[str, Any]
) -> None:
    # Many runs in a row would spend a tenth of their time on the search for it, and on new memory.
    run(scenario, **options)
    gc.collect()  # what earlier tests have left: the run of an agent lets go of the frozen objects
    gc.freeze()  # the search goes through the objects of the second run alone
    gc.disable()
    try:
        run(scenario, **options)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_text_that_no_trace_can_hold_is_the_authors_mistake() -> None:
    with pytest.raises(ScenarioError, match="half of a surrogate pair"):
        run(Scenario(prompt="\ud800", model=[Reply(say="Hello.")]))


TWINS = parse_scenario("""
prompt: Look twice.
tools: {left: {takes: 1s}, right: {takes: 1s}}
tool_execution: {order: parallel}
model: [{call: {left: {}, right: {}}}, {say: Done.}]
""")


@pytest.mark.parametrize("tools", [[], [time.time]], ids=["unsealed", "sealed"])
def test_timers_of_one_instant_fire_in_an_order_drawn_from_the_seed(tools: list[Any]) -> None:
    def order(seed: int, *, shuffle: bool) -> str:
        scenario = TWINS.model_copy(update={"shuffle_ties": shuffle})
        record = run(scenario, seed=seed, tools=tools).trace.entries
        return " ".join(e.name for e in record if isinstance(e, entries.ToolResult))

    assert {order(seed, shuffle=False) for seed in range(8)} == {"left right"}
    assert {order(seed, shuffle=True) for seed in range(8)} == {"left right", "right left"}
    assert all(order(3, shuffle=True) == order(3, shuffle=True) for _ in range(3))


@pytest.mark.parametrize("loop", ["reference", "pi", "react", "opencode"])
@pytest.mark.parametrize("key", ["lost", "stall"])
def test_a_machine_treats_a_missing_connection_like_one_that_breaks(loop: str, key: str) -> None:
    def played(place: str) -> str:
        failing = Reply.model_validate({key: place, "times": 2})
        limits = Limits(first_part_timeout_ms=5_000)
        scenario = Scenario(prompt="Hi", model=[failing, Reply(say="Hello.")], limits=limits)
        simulation = Simulation(scenario, loop=loop)
        with contextlib.suppress(ScriptUnused, Deadlock):
            simulation.run()
        text = repr(list(simulation.trace.entries))
        return text.replace("connection refused", "connection lost before headers")

    assert played("before-connect") == played("before-headers")


def test_a_python_tool_joins_the_scripted_ones_and_replaces_its_namesake() -> None:
    scenario = parse_scenario("""
prompt: x
tools: {clock: {returns: scripted}, calendar: {returns: scripted}}
model: [{call: [{clock: {}}, {calendar: {}}, {add: {a: 1, b: 2}}]}, {say: x}]
""")

    def clock() -> str:
        return "python"

    async def add(a: int, b: int) -> dict[str, int]:
        await asyncio.sleep(1)
        return {"sum": a + b}

    result = run(scenario, tools=[clock, add])
    assert tool_texts(result.messages) == ["python", "scripted", '{"sum":3}']
    assert result.elapsed_ns == 10**9


def test_a_tool_may_be_given_by_name_or_as_a_tool() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{call: {a: {}, b: {n: 1}}}, {say: x}]")
    schema = {"type": "object", "required": ["n"]}
    by_name = run(
        scenario,
        tools={"a": lambda: "A", "b": Tool(lambda n: f"B{n}", name="b", parameters=schema)},
    )
    assert tool_texts(by_name.messages) == ["A", "B1"]


def test_python_hooks_run_after_the_scripted_ones_and_see_their_changes() -> None:
    scenario = parse_scenario("""
prompt: x
tools: {read: {parameters: {path: string}, returns: text}}
hooks: [{at: before_tool_call, arguments: {path: /safe}}]
model: [{call: {read: {path: /}}}, {say: x}]
""")
    seen: list[Any] = []

    def watch(given: BeforeToolCall) -> None:
        seen.append(dict(given.arguments))
        given.arguments["path"] += "/file"

    def mask(done: AfterToolCall) -> None:
        seen.append(dict(done.arguments))
        done.result = ToolResult("masked")

    result = run(scenario, hooks=Hooks(before_tool_call=[watch], after_tool_call=[mask]))
    assert seen == [{"path": "/safe"}, {"path": "/safe/file"}]
    assert tool_texts(result.messages) == ["masked"]


def text_reply(_: Request) -> str:
    return "Hello."


async def async_reply(_: Request) -> Reply:
    await asyncio.sleep(1)
    return Reply(say="Hello.")


def generator_reply(_: Request) -> Any:
    yield TextDelta("Hel")
    yield TextDelta("lo.")
    yield Finish(FinishReason.STOP, "stop")


async def async_generator_reply(_: Request) -> Any:
    yield TextDelta("Hello.")
    yield Finish(FinishReason.STOP, "stop")


@pytest.mark.parametrize("model", [text_reply, async_reply, generator_reply, async_generator_reply])
def test_a_function_answers_in_the_place_of_a_script(model: Callable[[Request], Any]) -> None:
    assert run(Scenario(prompt="Hi"), model=model).text == "Hello."


def test_a_model_function_that_returns_something_else_is_the_authors_fault() -> None:
    with pytest.raises(ScenarioError, match=r"returned int \(return text, a Reply, or parts\)"):
        run(Scenario(prompt="Hi"), model=lambda _: 5)


@pytest.mark.parametrize("script", ["model", "summaries"])
def test_a_script_and_a_model_function_together_are_refused(script: str) -> None:
    scenario = parse_scenario(f"prompt: x\n{script}: [{{say: x}}]")
    with pytest.raises(ScenarioError) as caught:
        run(scenario, model=text_reply)
    assert ("two models" in str(caught.value), caught.value.hint != "") == (True, True)
