"""Scenarios, runs, recorded runs and small agents, as most tests need them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from simloop import (
    ExponentialBackoff,
    LoopTrace,
    Reply,
    Result,
    Scenario,
    ScriptedTool,
    parse_scenario,
    read_trace,
)
from simloop.cursor.recorded_run import RecordedRun
from simloop.messages import Counters, Message, UserMessage
from simloop.runs.options import RunOptions
from simloop.runs.run import Simulation
from simloop.trace.entries import AnyEntry
from simloop.world.world import World

E = TypeVar("E")

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
LOOK = Reply(say="I look.", call={"look": {}})
DONE = Reply(say="Done.")
HANGS = Reply(stall="before-headers")
JITTERY = ExponentialBackoff(jitter=0.5)
S = 1_000_000_000
TOOLS = {"look": ScriptedTool(returns="found")}


def look() -> str:
    return "seen"


def scenario(*model: Reply | Mapping[str, Any], **fields: Any) -> Scenario:
    """A scenario with the tool `look`; a reply and a field may be as they are in a file."""
    given = {"prompt": "Go.", "tools": TOOLS, **fields}
    return Scenario.model_validate({**given, "model": list(model)} if model else given)


def simulation(*model: Reply | Mapping[str, Any], **options: Any) -> Simulation:
    """A run that has not begun. Each option is a field of the scenario, or an option of `run`.

    `tools` are scripted if they are a mapping, and code if they are a list.
    """
    code = {name: options.pop(name) for name in [*options] if _is_code(name, options[name])}
    fields = {"tools": {}, **options} if "tools" in code else options
    return Simulation(scenario(*model, **fields), **code)


def _is_code(name: str, value: object) -> bool:
    if name == "tools":
        return not isinstance(value, Mapping)
    if name == "services" and isinstance(value, Mapping):
        return any(map(callable, value.values()))
    return name in RunOptions.__annotations__ and not isinstance(value, BaseModel)


def play(*model: Reply | Mapping[str, Any], **options: Any) -> Result:
    """The result of a run: see `simulation` for the options."""
    return simulation(*model, **options).run()


def play_loosely(*model: Reply, **options: Any) -> Result:
    """The result of a run whose replies need not be used up, with the tool `look` as code."""
    script = iter(model)
    return play(model=lambda _: next(script), **{"tools": [look], **options})


def play_text(text: str, **code: Any) -> Result:
    """The result of a run of a scenario in YAML."""
    return Simulation(parse_scenario(text), **code).run()


def recorded(given: LoopTrace | str = "start.quickstart") -> RecordedRun:
    """The recorded run of a trace, or of the trace of this name in the repository."""
    trace = given if isinstance(given, LoopTrace) else read_trace(TRACES / f"{given}.trace.jsonl")
    return RecordedRun.of_trace(trace)


def entries_of(run: Result | LoopTrace, kind: type[E]) -> list[E]:
    """The entries of one kind, or of the kinds that a base class has."""
    trace = run if isinstance(run, LoopTrace) else run.trace
    found: list[AnyEntry] = trace.entries
    return [entry for entry in found if isinstance(entry, kind)]


def counters_of(result: Result) -> Counters:
    """The counters at the end; only an agent without a machine has none."""
    assert result.counters is not None
    return result.counters


async def asks(prompt: str, world: World) -> str:
    """An agent that asks the model once."""
    return (await world.model.reply([UserMessage(prompt)])).message.text


async def calls_tools(prompt: str, world: World) -> str:
    """An agent that asks the model until it calls no tools, and runs the world's tools."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = (await world.model.reply(messages, tools=world.tools.specs)).message
        if not reply.calls:
            return reply.text
        messages += [reply, *[await world.tools.run(call) for call in reply.calls]]
