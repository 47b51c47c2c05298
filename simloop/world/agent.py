"""The agent: the code under test.

Not here: the agent that drives a machine (engine/machine_agent.py), and the course of a run around
an agent (runs/conversation.py). The rule to keep: simloop asks nothing else of an agent than this
one call, so that code written without simloop in mind is an agent.
"""

import inspect
from typing import Any, Protocol, cast

from simloop.errors import ScenarioError
from simloop.world.world import World


class Agent(Protocol):
    """An agent: an async callable, called once for each prompt.

    It returns its last text, or None. An exception ends the prompt as failed; a request to stop
    cancels the call.
    """

    async def __call__(self, prompt: str, world: World) -> str | None:
        """Answer one prompt in `world`."""
        ...


def is_agent(made: Any) -> bool:
    """Return whether `made` is an agent: an async function, or anything with async calls."""
    call = made if inspect.isroutine(made) else getattr(made, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(call)


def agent_from(made: Any, name: str) -> Agent:
    """Return an agent that passes on the arguments that `made` takes: a prompt, perhaps a world.

    A class is instantiated, and the instance keeps the conversation. Raises ScenarioError for an
    agent that takes other arguments.
    """
    agent: Any = made() if inspect.isclass(made) else made
    if _positional(agent, name) == 1:

        async def without_world(prompt: str, _: World) -> str | None:
            answer: str | None = await agent(prompt)
            return answer

        return cast("Agent", without_world)
    return cast("Agent", agent)


def _positional(agent: Any, name: str) -> int:
    """Return how many positional arguments an agent takes. Raises ScenarioError unless 1 or 2."""
    signature = inspect.signature(agent)
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise ScenarioError(
        f"the agent `{name}` takes {signature}, and not a prompt and a world",
        key="loop",
        hint="write `async def agent(prompt, world)`; `world` may be left out",
    )
