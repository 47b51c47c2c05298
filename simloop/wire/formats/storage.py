"""The responses and the conversations that a provider keeps, for one run.

A response is kept with its input, unless its request says `store: false`, and a request that goes
on from it has these items before its own. Instructions are not kept. Statuses and words are from
recorded replies, as of 2026-11-26: maximhq/bifrost#2441 (a previous response), can1357/oh-my-pi#41
(an item), ConformanceTraces in microsoft/agent-framework (a conversation, both ways to go on), and
OpenAIResponseAgentThreadTests.cs in microsoft/semantic-kernel (a response that is read or deleted).
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from simloop.wire.formats import payload
from simloop.wire.formats.payload import JsonObject

Items = tuple[JsonObject, ...]
KeptResponse = tuple[JsonObject, Items]
"""A response as it was sent, and all items that the model had seen."""
_MOST_READERS = 8  # one for each agent that goes on: each has all messages before its response
_refused = partial(payload.refusal, "openai")


class Turn(NamedTuple):
    """The items of a request and those before it, and the names by which it asks for them."""

    before: Items = ()
    given: Items = ()
    previous: str = ""
    conversation: str = ""
    is_kept: bool = True
    reader: Any = None


class Storage:
    """The responses and the conversations of one run, by their ids."""

    def __init__(self) -> None:
        self.responses: dict[str, KeptResponse] = {}
        self.conversations: dict[str, Items] = {}
        self._begun = self._added = 0
        self._readers: dict[str, Any] = {}  # of the items before a response, for one that goes on
        self._output: dict[str, JsonObject] = {}  # items by their ids
        self._same: dict[str, JsonObject] = {}  # one item for each text: agents repeat them all
        self.thoughts: dict[Any, str] = {}  # by the item, or the call, that came behind a thought

    def turn(self, body: JsonObject) -> Turn:
        """Return the items of a request to `/responses`. Raises WrongRequest."""
        previous, name = payload.text_at(body, "previous_response_id", ""), body.get("conversation")
        named = name if isinstance(name, dict) else {"id": name}
        conversation = payload.text_at(named, "id", "conversation")
        if previous and conversation:
            raise _refused("both")
        before = self.conversation(conversation) if conversation else ()
        if previous and previous not in self.responses:
            raise _refused("no previous", previous, key="previous_response_id")
        if previous:
            response, seen = self.responses[previous]
            before = (*seen, *response["output"])
        given = tuple(map(self._referred, items_of(body, "input")))
        known = {each.get("id") for each in (*before, *given)} if self.thoughts else ()
        for item in given if self.thoughts else ():
            if (thought := self.thoughts.get(item.get("id"))) is not None and thought not in known:
                raise _refused("no thought", item["id"], item.get("type"), thought, key="input")
        is_kept, reader = body.get("store") is not False, self._readers.pop(previous, None)
        return Turn(before, given, previous, conversation, is_kept, reader)

    def keep(self, turn: Turn, response: JsonObject) -> None:
        output, thought = response["output"], ""
        for item in output:
            if item["type"] == "reasoning":
                thought = item["id"]
            elif thought:
                self.thoughts[item["id"]] = thought
        if turn.is_kept:
            seen = (self._same.setdefault(json.dumps(one), one) for one in turn.given)
            self.responses[response["id"]] = response, (*turn.before, *seen)
            self._output |= {item["id"]: item for item in output}
            self._readers[response["id"]] = turn.reader
            for old in [*self._readers][:-_MOST_READERS]:
                del self._readers[old]
        if turn.conversation in self.conversations:
            self.add(turn.conversation, (*turn.given, *output))

    def response(self, name: str) -> KeptResponse:
        """Return a response by its id. Raises WrongRequest."""
        if name not in self.responses:
            raise _refused("no response", name)
        return self.responses[name]

    def conversation(self, name: str) -> Items:
        """Return the items of a conversation by its id. Raises WrongRequest."""
        if name not in self.conversations:
            raise _refused("no conversation", name)
        return self.conversations[name]

    def begin(self, items: Sequence[JsonObject]) -> str:
        self._begun += 1
        name = f"conv_{self._begun}"
        self.conversations[name] = ()
        self.add(name, items)
        return name

    def add(self, conversation: str, items: Sequence[JsonObject]) -> Items:
        before, start = self.conversation(conversation), self._added
        self._added += len(items)
        added = tuple(named(item, f"item_{at}") for at, item in enumerate(items, start))
        self.conversations[conversation] = (*before, *added)
        return added

    def _referred(self, item: JsonObject) -> JsonObject:
        if item.get("type") != "item_reference":
            return item
        if (name := payload.text_at(item, "id", "input")) not in self._output:
            raise _refused("no item", name, key="input")
        return self._output[name]


def named(item: JsonObject, name: str) -> JsonObject:
    """Return an item as the provider lists it: with an id, and with a text as a part."""
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return {"id": name, "type": "message", **item} | ({"content": content} if content else {})


def items_of(body: JsonObject, field: str) -> Sequence[JsonObject]:
    """Return the items in a field of a request; a text is a message of the user."""
    given = body.get(field)
    if isinstance(given, str):
        said = {"type": "input_text", "text": given}
        return ({"type": "message", "role": "user", "content": [said]},)
    return [item for _, item in payload.objects_at(body, field)]
