"""W(n): n rounds of 8 text deltas, one tool call and a finish; the last one only says good-bye."""

from collections.abc import Callable

from simloop import Compaction, Limits, Scenario
from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    Request,
    TextDelta,
    ToolCall,
    ToolCallPart,
    Usage,
)
from simloop.runs.run import Simulation
from simloop.trace.looptrace import LoopTrace

_DELTAS: list[Part] = [TextDelta(f"word{number} ") for number in range(8)]


def echo(x: str) -> str:
    """The tool: gives back what it gets."""
    return x


def model(rounds: int) -> Callable[[Request], list[Part]]:
    """A model function that calls `echo` in all rounds but the last."""
    usage = Usage(100, 10)

    def answer(request: Request) -> list[Part]:
        if request.number == rounds:
            return [*_DELTAS, Finish(FinishReason.STOP, "stop", usage)]
        call = ToolCall(f"call-{request.number}", "echo", '{"x": "hello"}')
        return [*_DELTAS, ToolCallPart(call), Finish(FinishReason.TOOL_CALLS, "tool-calls", usage)]

    return answer


def w(rounds: int) -> LoopTrace:
    """Run W(rounds) and return its trace."""
    scenario = Scenario(
        prompt="go",
        limits=Limits(max_steps=rounds + 1),
        compaction=Compaction(window=10**12),
    )
    simulation = Simulation(scenario, model=model(rounds), tools=[echo])
    result = simulation.run()
    assert result.counters is not None
    assert result.counters.total_steps == rounds
    return result.trace
