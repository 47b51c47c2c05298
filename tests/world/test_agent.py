"""An agent is an async callable of a prompt, and perhaps a world."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from worlds import Opened, in_world

from simloop import Limits, ScenarioError
from simloop.world.agent import agent_from, check_agent, is_agent
from simloop.world.world import World


async def of_both(prompt: str, world: World) -> str:
    return f"{prompt} {type(world).__name__}"


async def of_a_prompt(question: str) -> str:
    return f"{question} alone"


async def of_a_prompt_and_a_default(prompt: str, world: World | None = None) -> str:
    return f"{prompt} {type(world).__name__}"


async def with_an_option(question: str, depth: int = 3) -> str:
    return f"{question} {depth}"


async def of_anything(*given: Any) -> str:
    return f"{given[0]} {len(given)}"


class Object:
    async def __call__(self, prompt: str, world: World) -> str:
        return f"{prompt} {type(world).__name__}"


class Counting:
    def __init__(self) -> None:
        self.prompts = 0

    async def __call__(self, prompt: str) -> str:
        self.prompts += 1
        return f"{prompt} {self.prompts}"

    async def answer(self, prompt: str) -> str:
        return await self(prompt)


def asked(made: Any, *prompts: str) -> list[str | None]:
    async def main(opened: Opened) -> list[str | None]:
        agent = agent_from(made, "mine")
        return [await agent(prompt, opened.world) for prompt in prompts]

    return in_world(main)


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (of_both, "Hi World"),
        (of_a_prompt, "Hi alone"),
        (of_a_prompt_and_a_default, "Hi World"),
        (with_an_option, "Hi 3"),
        (of_anything, "Hi 1"),
        (Object(), "Hi World"),
        (Counting().answer, "Hi 1"),
    ],
    ids=["both", "prompt", "default", "option", "anything", "object", "method"],
)
def test_an_agent_gets_the_arguments_that_it_takes(made: Any, answer: str) -> None:
    assert asked(made, "Hi") == [answer]


def test_an_object_keeps_the_conversation() -> None:
    assert asked(Counting(), "a", "b") == ["a 1", "b 2"]


async def of_nothing() -> str:
    return ""


async def of_three(prompt: str, world: World, more: str) -> str:
    return prompt + more


async def of_a_keyword(prompt: str, *, world: World) -> str:
    return prompt


@pytest.mark.parametrize("made", [of_nothing, of_three, of_a_keyword])
def test_an_agent_that_takes_other_arguments_is_refused_with_what_to_write(
    made: Callable[..., Any],
) -> None:
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes \(.*\) -> str, not a prompt"):
        agent_from(made, "mine")
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes"):
        check_agent(made, "mine")


class Wrong:
    async def __call__(self) -> str:
        return ""


def test_the_instances_of_a_class_are_checked_without_making_one() -> None:
    check_agent(Object, "mine")
    check_agent(Counting, "mine")
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes \(\) -> str, not"):
        check_agent(Wrong, "mine")


def sync(prompt: str) -> str:
    return prompt


class Sync:
    def __call__(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (of_both, True),
        (Object(), True),
        (Object, True),
        (Counting().answer, True),
        (sync, True),
        (Sync(), True),
        (Sync, True),
        (lambda prompt: prompt, True),
        (lambda question, world: question, True),
        (partial(sync), True),
        (lambda question: question, False),
        (lambda limits: limits, False),
        (lambda _: None, False),
        (lambda *given: given, False),
        (lambda prompt="": prompt, False),
        (Limits, False),
        (print, False),
        ("text", False),
        (None, False),
    ],
    ids=["function", "object", "class", "method", "sync function", "sync object", "sync class",
         "by its name", "by its world", "partial", "unclear", "limits", "unnamed", "anything",
         "a default", "a class without calls", "builtin", "text", "none"],
)  # fmt: skip
def test_what_has_async_calls_or_reads_a_prompt_is_an_agent(made: Any, expected: bool) -> None:  # noqa: FBT001
    assert is_agent(made) is expected
