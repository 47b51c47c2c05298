"""The agent: the code under test.

Not here: the agent that drives a machine (engine/machine_agent.py), and the course of a run around
an agent (runs/conversation.py). The rule to keep: simloop asks nothing else of an agent than this
one call, so that code written without simloop in mind is an agent.
"""

import inspect
from functools import partial
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
    call = getattr(made, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(made) or inspect.iscoroutinefunction(call)


def check_agent(made: Any, name: str) -> None:
    """Raise ScenarioError unless an agent, or the instances of a class, take a prompt."""
    _takes_world(partial(made.__call__, None) if inspect.isclass(made) else made, name)


def agent_from(made: Any, name: str) -> Agent:
    """Return an agent that passes on the arguments that `made` takes: a prompt, perhaps a world.

    Raises ScenarioError for an agent that takes other arguments.
    """
    if _takes_world(made, name):
        return cast("Agent", made)

    async def without_world(prompt: str, _: World) -> str | None:
        answer: str | None = await made(prompt)
        return answer

    return cast("Agent", without_world)


def _takes_world(made: Any, name: str) -> bool:
    """Return whether an agent takes a world after the prompt. Raises ScenarioError.

    A second parameter with a default is the world only if it is called `world`: the agent may be
    code that was written without simloop in mind.
    """
    signature = inspect.signature(made)
    second = [*signature.parameters.values()][1:2]
    alone = not any(
        each.default is inspect.Parameter.empty or each.name == "world" for each in second
    )
    for count in (1, 2) if alone else (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count > 1
    raise ScenarioError(
        f"the agent `{name}` takes {signature}, not a prompt and a world",
        key="loop",
        hint="write `async def agent(prompt, world)`; `world` may be left out",
    )
