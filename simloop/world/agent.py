"""The agent: the code under test, and the end of its run.

simloop asks nothing else of an agent than one call, so that code written without simloop in mind is
an agent.
"""

import inspect
from functools import partial
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.messages import Counters, Outcome
from simloop.virtual.threads.calls import call_in_thread
from simloop.world.world import World


class Agent(Protocol):
    """An agent: an async callable, called once for each prompt. `agent_from` makes it from others.

    It returns its last text, or None. An exception ends the prompt as failed; a request to stop
    cancels the call.
    """

    async def __call__(self, prompt: str, world: World) -> str | None:
        """Answer one prompt in `world`."""
        ...


def is_agent(made: Any) -> bool:
    """Return whether `made` is an agent: a function or object, or the class of such objects.

    Its calls are async, or they read a prompt (see `reads`).
    """
    return is_async(made) or reads(made) == "prompt"


def is_async(made: Any) -> bool:
    """Return whether `made` is an async function, or an object or a class with async calls."""
    call = getattr(made, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(made) or inspect.iscoroutinefunction(call)


def reads(made: Any) -> str:
    """Return what a function that is not async reads: `prompt`, `limits`, or `unclear`.

    It reads a prompt if its first parameter is called `prompt` or is a str, if the second is a
    world, or if it returns a str. It reads limits if the first parameter is called so or has their
    type. An empty text is for anything without a required first parameter, or with an unnamed one.
    """
    try:
        signature = inspect.signature(_called(made))
    except (TypeError, ValueError):  # not callable, or written in C
        return ""
    parameters = [p for p in signature.parameters.values() if p.kind in _POSITIONAL]
    if not parameters or parameters[0].default is not inspect.Parameter.empty:
        return ""
    first, second = parameters[0], parameters[1] if len(parameters) > 1 else None
    if first.name == "limits" or "Limits" in _written(first.annotation):
        return "limits"
    is_prompt = first.name == "prompt" or _written(first.annotation) == "str"
    has_world = second is not None and (
        second.name == "world" or "World" in _written(second.annotation)
    )
    returned = _written(signature.return_annotation).replace(" ", "")
    if is_prompt or has_world or returned in {"str", "str|None", "Optional[str]"}:
        return "prompt"
    return "" if first.name.startswith("_") else "unclear"


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _called(made: Any) -> Any:
    if not inspect.isclass(made):
        return made
    call = getattr(made, "__call__", None)  # noqa: B004
    return partial(call, None) if inspect.isfunction(call) else None


def _written(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def check_agent(made: Any, name: str) -> None:
    """Raise ScenarioError unless an agent, or the instances of a class, take a prompt."""
    _takes_world(_called(made), name)


def agent_from(made: Any, name: str) -> Agent:
    """Return an agent that passes on the arguments that `made` takes: a prompt, perhaps a world.

    One that is not async runs in a simulated thread, which ends where it waits if the prompt is
    stopped. Raises ScenarioError for an agent that takes other arguments.
    """
    takes_world = _takes_world(made, name)
    if not is_async(made):
        return _in_thread(made, takes_world=takes_world)
    if takes_world:
        return cast("Agent", made)

    async def without_world(prompt: str, _: World) -> str | None:
        answer: str | None = await made(prompt)
        return answer

    return cast("Agent", without_world)


def _in_thread(made: Any, *, takes_world: bool) -> Agent:
    async def in_thread(prompt: str, world: World) -> str | None:
        given = (prompt, world) if takes_world else (prompt,)
        answer: Any = await call_in_thread(partial(made, *given), "agent")
        text: str | None = await answer if inspect.isawaitable(answer) else answer
        return text

    return in_thread


def _takes_world(made: Any, name: str) -> bool:
    """Return whether an agent takes a world after the prompt. Raises ScenarioError.

    A second parameter with a default is the world only if it is called `world`: the agent may be
    code that was written without simloop in mind.
    """
    if not inspect.isfunction(made):
        return _binds_world(made, name)
    known = _TAKES_WORLD.get(made)
    if known is None:
        known = _TAKES_WORLD[made] = _binds_world(made, name)
    return known


_TAKES_WORLD: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""The functions that were looked at: a signature takes longer than the rest of a plan."""


def _binds_world(made: Any, name: str) -> bool:
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
        hint="write `async def agent(prompt, world)`, or `def`; `world` may be left out",
    )


class Ending(Struct, frozen=True):
    """The end of a run. `text` is the model's last text, `message` the message to the user.

    `limit` names the limit that ended the run, if one did. `counters` are those of a machine.
    """

    outcome: Outcome
    limit: str = ""
    message: str = ""
    text: str = ""
    counters: Counters | None = None
