"""Faulty agents for searches, which also run in other processes."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from simloop import Message, Reply, Scenario, ToolMessage, UserMessage, World, folder
from simloop.fuzz.choices import Choices
from simloop.world.model_port import ModelCallFailed


class RecordedChoices(Choices):
    """Choices read from a list; after the end of the list, each choice is 0, the benign one.

    A number above the range of its choice becomes the largest number of the range.
    """

    __slots__ = ("_left",)

    def __init__(self, drawn: Sequence[int]) -> None:
        self._left = iter(drawn)

    def boolean(self, p: float) -> bool:
        """Return whether something happens, unless it has the probability 0 or 1."""
        drawn = bool(next(self._left, 0))
        return (drawn or p >= 1) and p > 0

    def integer(self, low: int, high: int) -> int:
        """Return the next number above `low`, at most `high`."""
        return min(low + max(next(self._left, 0), 0), high)

    def weighted(self, weights: Sequence[int]) -> int:
        """Return the next number as an index; 0 if its weight is 0."""
        index = min(max(next(self._left, 0), 0), len(weights) - 1)
        return index if weights[index] else 0


WORLD = Scenario(prompt="Go.", loop="searching:asks", model=[Reply(say="Done.", times="always")])
_seen: list[str] = []
_talks: dict[str, list[str]] = {}
Agent = TypeVar("Agent", bound=Callable[..., Any])


def plain(agent: Agent) -> Agent:
    """Take any reply for the answer, and say so: a search has one failure to find, and is short."""
    said = "it takes any reply for the answer"
    names = ("completed-after-a-complete-reply", "completed-without-open-calls",
             "completed-after-a-reply", "answered-calls")  # fmt: skip
    agent.deviations = dict.fromkeys(names, said)  # type: ignore[attr-defined]
    return agent


@plain
async def asks(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


@plain
async def repeats(prompt: str, world: World) -> str:
    """Ask again, at once, whenever a call fails."""
    while True:
        try:
            return await asks(prompt, world)
        except ModelCallFailed:
            continue


@plain
async def remembers(prompt: str, world: World) -> str:
    """Send a result without a call, from the third run of the process on."""
    _seen.append(prompt)
    stray = [ToolMessage("no-such-call", "x")] if len(_seen) > 2 else []
    return (await world.model.reply([UserMessage(prompt), *stray])).message.text


COUNTER = Path("counter")


def number_of_run() -> int:
    """Return the number of this run among those of all processes."""
    with COUNTER.open("a") as file:
        file.write("x")
    return COUNTER.stat().st_size


@plain
async def counts_in_a_file(prompt: str, world: World) -> str:
    """Send a result without a call in one run of 25."""
    stray = [ToolMessage("no-such-call", "x")] if number_of_run() % 25 == 0 else []
    return (await world.model.reply([UserMessage(prompt), *stray])).message.text


@plain
async def shares(prompt: str, world: World) -> str:
    """Send a result without a call to each user but the first of the process."""
    _seen.append(prompt)
    stray = [ToolMessage("no-such-call", "x")] if len(_seen) > 1 else []
    return (await world.model.reply([UserMessage(prompt), *stray])).message.text


class Sharing:
    async def __call__(self, prompt: str, world: World) -> str:
        return await shares(prompt, world)


shares_made = plain(Sharing())


@plain
async def counts(prompt: str, world: World) -> str:
    """Tell the model the number of the run in this process, and break off after 30."""
    _seen.append(prompt)
    assert len(_seen) < 30
    return await asks(f"{len(_seen)}: {prompt}", world)


@plain
async def tires(prompt: str, world: World) -> str:
    """It looks for four users, and for nobody after them."""
    _seen.append(prompt)
    return await asks(prompt if len(_seen) < 5 else f"{prompt} I am tired.", world)


@plain
async def lends(prompt: str, world: World) -> str:
    """It lends a book to everybody, and the further prompt gives it back."""
    has_lent = " You have lent it." * bool(_seen)
    _seen.clear() if prompt == "Give it back." else _seen.append(prompt)
    return await asks(prompt + has_lent, world)


@plain
async def owes(prompt: str, world: World) -> str:
    """It tells later users that one got no answer."""
    owed = " I owe somebody an answer." * bool(_seen)
    try:
        return await asks(prompt + owed, world)
    except ModelCallFailed:
        _seen.append(prompt)
        return "Ask me later."


@plain
async def lags(prompt: str, world: World) -> str:
    """It looks at what failed before after its first request, as a tool would."""
    try:
        await asks(prompt, world)
    except ModelCallFailed:
        _seen.append(prompt)
    return await asks(f"{prompt} {len(_seen)} calls have failed.", world)


@plain
async def keys(prompt: str, world: World) -> str:
    """It keeps what is said under a random id, as a store of sessions does."""
    talk = _talks.setdefault(uuid4().hex, [])
    talk.append(prompt)
    return await asks(" ".join(talk), world)


@plain
async def spoils(prompt: str, world: World) -> str:
    """A call that fails spoils what it keeps under a random id."""
    talk = _talks.setdefault(uuid4().hex, [])
    try:
        if not talk:
            return await asks(prompt, world)
    except ModelCallFailed:
        talk.append(prompt)
    raise KeyError(talk[0])


@plain
async def stores(prompt: str, world: World) -> str:
    """It believes that it knows where it stores its files."""
    assert folder().name == "simloop-run"
    return await asks(prompt, world)


@plain
async def notes(prompt: str, world: World) -> str:
    """Keep each prompt, and never look at it again."""
    _seen.append(prompt)
    return await asks(prompt, world)


@plain
async def prints(prompt: str, world: World) -> str:
    print(prompt)  # noqa: T201 - what it is about
    return await asks(prompt, world)


@plain
async def hashes(prompt: str, world: World) -> str:
    words = " ".join({"one", "two", "three", "four", "five", "six", "seven"})
    return await asks(words, world)


@plain
async def looks(prompt: str, world: World) -> str:
    """Spin for ever after a certain reply."""
    text = await asks(prompt, world)
    while "words" in text:
        pass
    return text


@plain
async def spins(_: str) -> str:
    """Spin for ever at once."""
    while True:
        pass


@plain
async def dies(_: str) -> None:
    """End the process of the run, as a crash in C does."""
    ctypes.CDLL(None)._exit(3)


@plain
async def fails(_: str) -> str:
    """Fail by a mistake."""
    known: dict[str, str] = {}
    return known["nothing"]


@plain
async def charges(prompt: str, world: World) -> str:
    """Run the tool `charge` twice, and other tools once."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        for call in reply.message.calls:
            result = await world.tools.run(call)
            if call.name == "charge":
                result = await world.tools.run(call)
            messages.append(result)
