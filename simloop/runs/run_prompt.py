"""The course of one prompt around an agent, from its prompt entry to its end entry.

Not here: the agent's own course. The rule to keep: every run has exactly one prompt entry and, with
an outcome, one end entry, whatever agent it was of.
"""

import asyncio

from simloop.engine.machine_agent import MachineAgent
from simloop.errors import SimloopError
from simloop.kernel.signals import AbortRequested
from simloop.messages import Outcome
from simloop.trace import entries
from simloop.world.agent import Agent
from simloop.world.ending import Ending
from simloop.world.user_errors import describe, keep
from simloop.world.world import World


async def run_prompt(agent: Agent, prompt: str, world: World) -> Ending:
    """Run `agent` on `prompt` and return its end. Raises the errors of simloop.

    An exception of the agent ends it as failed.
    """
    recorder, loop = world.model.recorder, world.model.loop
    start_ns = loop.now_ns
    try:
        ending = await _ending_of(agent, prompt, world)
    finally:
        world.user.cancellation.close()
    recorder.record(
        entries.Ended,
        ending.outcome,
        ending.limit,
        ending.message,
        ending.text,
        loop.now_ns - start_ns,
        ending.counters,
    )
    return ending


async def _ending_of(agent: Agent, prompt: str, world: World) -> Ending:
    cancellation = world.user.cancellation
    text = None
    try:
        text = await agent(prompt, world)
    except asyncio.CancelledError:
        if cancellation.pending is None:
            raise  # another task cancels the run, and not its user
    except SimloopError:
        raise
    except Exception as error:
        if isinstance(agent, MachineAgent):
            raise  # the engine isolates user code itself: this is a machine's own fault
        keep(world.model.raised, "the agent", error)
        return Ending(Outcome.FAILED, message=Outcome.FAILED.message(cause=describe(error)))
    if isinstance(agent, MachineAgent):
        assert agent.ending is not None
        return agent.ending
    if cancellation.pending is None:
        said = text or ""
        return Ending(Outcome.COMPLETED, message=said, text=said)
    if isinstance(cancellation.take(), AbortRequested):
        return Ending(Outcome.ABORTED, message=Outcome.ABORTED.message())
    return Ending(Outcome.TIMED_OUT, "max_wall_clock", Outcome.TIMED_OUT.message())
