"""The responses and the conversations that a provider keeps, for one run.

A response is kept with its input, unless its request says `store: false`, and a request that goes
on from it has these items before its own. Instructions are not kept. Statuses and words are those
of maximhq/bifrost#2441 (a response) and can1357/oh-my-pi#41 (an item).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simloop.wire.formats import payload
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.wire_format import WrongRequest

Items = tuple[JsonObject, ...]
_BOTH = (
    "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. "
    "Ensure you are only providing one of: 'previous_response_id' or 'conversation'."
)
_NO_ITEM = (
    "Item with id '{0}' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input."
)


class Turn(NamedTuple):
    """The items of a request and those before it, and the names by which it asks for them."""

    before: Items = ()
    given: Items = ()
    previous: str = ""
    conversation: str = ""
    is_kept: bool = True


class KeptResponse(NamedTuple):
    """A response as it was sent, and all items that the model had seen."""

    body: JsonObject
    seen: Items


class Storage:
    """What the provider keeps of one run: responses and conversations, by their ids."""

    def __init__(self) -> None:
        self.responses: dict[str, KeptResponse] = {}
        self.conversations: dict[str, list[JsonObject]] = {}
        self._begun = 0
        self._output: dict[str, JsonObject] = {}  # items by their ids
        self._same: dict[str, JsonObject] = {}  # one item for each text: agents repeat them all

    def turn(self, body: JsonObject) -> Turn:
        """Return the items of a request to `/responses`. Raises WrongRequest."""
        previous = payload.text_at(body, "previous_response_id", "")
        name = body.get("conversation")
        conversation = payload.text_at(
            name if isinstance(name, Mapping) else {"id": name}, "id", "conversation"
        )
        if previous and conversation:
            raise WrongRequest("", _BOTH, "mutually_exclusive_parameters")
        before: Items = ()
        if previous:
            kept = self.response(previous, "previous_response_id")
            before = (*kept.seen, *kept.body["output"])
        elif conversation:
            before = (*self.conversation(conversation),)
        given = tuple(map(self._referred, self.items(body, "input")))
        return Turn(before, given, previous, conversation, body.get("store") is not False)

    def response(self, name: str, key: str = "") -> KeptResponse:
        """Return a response by its id; `key` is the field of a request that has it."""
        if name in self.responses:
            return self.responses[name]
        if key:
            words = f"Previous response with id '{name}' not found."
            raise WrongRequest(key, words, "previous_response_not_found")
        raise WrongRequest("", f"Response with id '{name}' not found.", status=404)

    def conversation(self, name: str) -> list[JsonObject]:
        """Return the items of a conversation by its id."""
        if name in self.conversations:
            return self.conversations[name]
        raise WrongRequest("", f"Conversation with id '{name}' not found.", status=404)

    def begin(self, body: JsonObject) -> str:
        """Begin a conversation with the items of a request, and return its id."""
        self._begun += 1
        name = f"conv_{self._begun}"
        self.conversations[name] = []
        self.add(name, self.items(body, "items"))
        return name

    def add(self, conversation: str, items: Sequence[JsonObject]) -> Items:
        """Add items to a conversation, and return them with their ids."""
        kept = self.conversation(conversation)
        start = len(kept)
        kept += [
            {"id": f"item_{conversation}_{start + at}", **item} for at, item in enumerate(items)
        ]
        return (*kept[start:],)

    def keep(self, turn: Turn, response: JsonObject) -> None:
        """Keep a response that has ended."""
        output = response["output"]
        if turn.is_kept:
            seen = (self._same.setdefault(payload.wire_json(one), one) for one in turn.given)
            self.responses[response["id"]] = KeptResponse(response, (*turn.before, *seen))
            self._output.update((item["id"], item) for item in output)
        if turn.conversation in self.conversations:
            self.add(turn.conversation, (*turn.given, *output))

    def _referred(self, item: JsonObject) -> JsonObject:
        if item.get("type") != "item_reference":
            return item
        name = payload.text_at(item, "id", "input")
        if name not in self._output:
            raise WrongRequest("input", _NO_ITEM.format(name), status=404)
        return self._output[name]

    @staticmethod
    def items(body: JsonObject, field: str) -> Sequence[JsonObject]:
        """Return the items in a field of a request; a text is a message of the user."""
        given = body.get(field)
        if isinstance(given, str):
            said = {"type": "input_text", "text": given}
            return ({"type": "message", "role": "user", "content": [said]},)
        return [item for _, item in payload.objects_at(body, field)]
