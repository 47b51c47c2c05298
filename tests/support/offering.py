"""Agents with tools of their own, over HTTP and in a world, for the tests of a search."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from wire import Heard, posted

from simloop import Program, Reply, Route, Scenario, World
from simloop.fuzz.alphabet import Abilities
from simloop.fuzz.circumstances import Circumstance, WorldDraft, circumstances
from simloop.fuzz.offers import Offer, offer_of
from simloop.fuzz.search import Search
from simloop.messages import Message, ToolMessage, ToolSpec, UserMessage
from simloop.runs.loop import loop_of
from simloop.runs.plan import content_of

GO = Scenario(prompt="Go.", max_transitions=500)
ORDER_ID = {"type": "string", "pattern": "^[A-Z]-[0-9]+$"}
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "find": {"properties": {"customer": {"type": "string"}}, "required": ["customer"]},
    "cancel": {"properties": {"order_id": ORDER_ID}, "required": ["order_id"]},
    "answer": {"properties": {"text": {"type": "string"}}, "required": ["text"]},
}
RESULTS: Mapping[str, Callable[..., Any]] = {
    "find": lambda customer: {"orders": [{"order_id": "A-17", "total": 12.5, "for": customer}]},
    "cancel": lambda order_id: f"Order {order_id} is cancelled, the receipt is r-9.",
}
CALLED: list[str] = []


class OverHttp:
    """An agent on Chat Completions that ends its run when the tool `answer` is called."""

    names: tuple[str, ...] = ("find", "cancel", "answer")

    async def __call__(self, prompt: str) -> str:
        return await self.conversation(prompt, {})

    async def conversation(self, prompt: str, more: Mapping[str, Any]) -> str:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        tools = [
            {"type": "function", "function": {"name": name, "parameters": PARAMETERS[name]}}
            for name in self.names
        ]
        while True:
            asked = posted({"model": "m", "messages": messages, "tools": tools, **more})
            heard = await Heard().listen(asked)
            message = json.loads(heard.body)["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message.get("content"))
            for call in message["tool_calls"]:
                name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
                CALLED.append(name)
                if name == "answer":
                    return str(given["text"])
                content = json.dumps(RESULTS[name](**given))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


class AnswersFirst(OverHttp):
    """The same agent, which names first the tool that ends its run."""

    names = ("answer", "find", "cancel")


SPECS = [ToolSpec(name, name, msgspec.Raw(json.dumps(PARAMETERS[name]).encode()))
         for name in ("find", "cancel")]  # fmt: skip


async def native(prompt: str, world: World) -> str:
    """Call the tools `find` and `cancel` of its own."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=SPECS)
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        for call in reply.message.calls:
            found = RESULTS[call.name](**json.loads(call.arguments))
            messages.append(ToolMessage(call.id, json.dumps(found)))


async def of_world(prompt: str, world: World) -> str:
    """Call the tools of its world."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        messages.append(reply.message)
        if not reply.message.calls:
            return reply.message.text
        messages += [await world.tools.run(call) for call in reply.message.calls]


async def without_tools(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


SUM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"sum": {"type": "number"}, "state": {"enum": ["open", "paid"]}},
    "required": ["sum", "state"],
    "additionalProperties": False,
}


class Asks(OverHttp):
    """An agent whose requests ask for an object as the answer, and whose user must agree."""

    names = ("find", "cancel")
    strict = True

    async def __call__(self, prompt: str) -> str:
        form = {"name": "sum", "schema": SUM, "strict": self.strict}
        asked = {"response_format": {"type": "json_schema", "json_schema": form}}
        said = await self.conversation(prompt, asked)
        if input("Send it? ") != "y":  # noqa: ASYNC250 - as many agents do
            return "not sent"
        return str(json.loads(said)["sum"])


class AsksAtLast(Asks):
    """An agent that asks for the object with a last request, after its answer."""

    strict = False

    async def conversation(self, prompt: str, more: Mapping[str, Any]) -> str:
        answer = await super().conversation(prompt, {})
        messages = [{"role": "user", "content": f"The sum of: {answer}"}]
        heard = await Heard().listen(posted({"model": "m", "messages": messages, **more}))
        return str(json.loads(heard.body)["choices"][0]["message"]["content"])


ROUTE = {"properties": {"place": {"enum": ["shop", "bank"]}}, "required": ["place"]}


class Routes(OverHttp):
    """An agent that lets the model call the tool `route` first, and nothing else."""

    names = ("find", "cancel")

    async def __call__(self, prompt: str) -> str:
        tools = [{"type": "function", "function": {"name": "route", "parameters": ROUTE}}]
        forced = {"type": "function", "function": {"name": "route"}}
        messages = [{"role": "user", "content": f"Whose is it: {prompt}"}]
        asked = {"model": "m", "messages": messages, "tools": tools, "tool_choice": forced}
        heard = await Heard().listen(posted(asked))
        message = json.loads(heard.body)["choices"][0]["message"]
        place = json.loads(message["tool_calls"][0]["function"]["arguments"])["place"]
        return f"{place}: {await self.conversation(prompt, {})}"


_KNOWN: dict[Any, tuple[Scenario, Offer]] = {}


def offered(agent: Any, base: Scenario = GO) -> Offer:
    """Return the offer of an agent; a probe takes a few forks, so each is made once."""
    if (agent, id(base)) not in _KNOWN:
        _KNOWN[agent, id(base)] = base, offer_of(base, {"loop": agent})
    return _KNOWN[agent, id(base)][1]


AROUND = Scenario(
    prompt="Go.",
    services={"https://orders.example": [Route(get="/orders", json=[])], "http://db.example": []},
    programs={"git": [Program(stdout="a")], "sh": "files"},
    models={"critic": {"when": {"system": "Judge."}, "replies": [{"say": "Good."}]}},
    files={},
    model=[Reply(call={"find": {"customer": "Ann"}}), Reply(say="Done.")],
    then=["And its price?"],
)
"""A scenario with all parties."""


def circumstances_of(
    agent: Any, base: Scenario, offer: Offer, **changes: Any
) -> list[Circumstance]:
    abilities = Abilities.of(loop_of(base, {"loop": agent}))
    return circumstances(base, offer, abilities._replace(**{"breaches": True, **changes}))


def world_with(each: Circumstance, base: Scenario, offer: Offer, place: int = 1) -> Scenario:
    draft = WorldDraft(base, offer)
    each.act(draft, place)
    return draft.scenario()


FOUND = [{"find": {"customer": "some customer"}}, {"cancel": {"order_id": "A-17"}}]
"""The course of each of these agents."""


def digest_of_worlds() -> str:
    """Return a digest of the worlds of a search, to compare with those of another process."""
    digest = hashlib.blake2b()
    for agent in (native, AnswersFirst):
        search = Search(agent, seed=1)
        for number in range(1, 260):
            digest.update(content_of(search.world(number)))
    return digest.hexdigest()
