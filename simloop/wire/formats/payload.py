"""Values of a request's body, read with their place; and values written as JSON.

What is wrong in a body is a WrongRequest with its place. What simloop has no word for is kept as a
text such as `[image]`. Text is free of lone surrogates, which JSON can carry but a trace cannot.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from simloop import messages as values
from simloop.escape import writable
from simloop.messages import StructuredOutput, ToolSpec, Usage
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.http import HttpRequest
from simloop.world.tools import canonical_json

JsonObject = Mapping[str, Any]

T = TypeVar("T")
ANY_OBJECT: JsonObject = {"type": "object"}
_ENCODER = msgspec.json.Encoder()

_WORDS = Path(__file__).with_name("words.json")
PROVIDERS: dict[str, dict[str, Any]] = json.loads(_WORDS.read_text("utf-8"))
"""The words of providers for errors, refusals, finishes and parts, with their sources."""


def wire_json(value: object) -> str:
    """Return `value` as JSON without spaces, its keys in the order in which they were set."""
    try:
        return _ENCODER.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return writable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def refusal(provider: str, why: str, *given: object, key: str = "") -> WrongRequest:
    """Return the refusal of a provider in its own words, into which `given` are put."""
    row = PROVIDERS[f"{provider} refusals"][why]
    message = row["message"].format(*given)
    return WrongRequest(key, message, row.get("code", ""), status=row.get("status", 400))


def body_of(request: HttpRequest) -> JsonObject:
    """Return the object that the body of a request holds. Raises WrongRequest."""
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise WrongRequest("", "The body of the request is not a JSON object.")
    return body


def object_text(value: Any, key: str) -> str:
    """Return canonical JSON of a value of a body. Raises WrongRequest for lone surrogates."""
    try:
        return canonical_json(value).decode()
    except (ValueError, RecursionError):
        raise WrongRequest(key, "Input should be JSON that UTF-8 can carry") from None


def text_at(body: JsonObject, field: str, key: str) -> str:
    """Return the text in `field`, or an empty one if it is missing or null."""
    return writable(_at(body, field, key, ""))


def list_at(body: JsonObject, field: str, key: str = "") -> Sequence[Any]:
    """Return the list in `field`, or an empty one if it is missing or null."""
    return _at(body, field, key, list[Any]())


def object_at(body: JsonObject, field: str, key: str) -> JsonObject:
    """Return the object in `field`, or an empty one if it is missing or null."""
    return _at(body, field, key, dict[str, Any]())


def _at(body: JsonObject, field: str, key: str, default: T) -> T:
    if (value := body.get(field)) is None:
        return default
    if not isinstance(value, type(default)):
        raise WrongRequest(_place(key, field), _expected(_TYPES[type(default)], value))
    return value


def usage_of(counts: JsonObject, given: str, came: str) -> Usage | None:
    """Return the token counts of a recorded reply, in the fields of its format."""
    numbers = [counts.get(field) for field in (given, came)]
    if not any(type(each) is int for each in numbers):
        return None
    return Usage(*(each if type(each) is int and each > 0 else 0 for each in numbers))


def counts_of(usage: Usage, given: str, came: str, total: str) -> dict[str, int]:
    """Return token counts, and their sum, in the fields of a format."""
    both = usage.input_tokens, usage.output_tokens
    return {given: both[0], came: both[1], total: sum(both)}


def model_of(body: JsonObject) -> str:
    """Return the name of the model that a request asks."""
    if not (model := text_at(body, "model", "")):
        raise refusal("openai", "no model", key="model")
    return model


def objects_at(body: JsonObject, field: str, key: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Yield each object of the list in `field`, with its place."""
    for index, value in enumerate(list_at(body, field, key)):
        place = f"{_place(key, field)}[{index}]"
        if not isinstance(value, dict):
            raise WrongRequest(place, _expected("an object", value))
        yield place, value


def content_text(content: Any, key: str, joint: str = "\n") -> str:
    """Return a content as text: a string, or a list of parts, which are joined by `joint`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return writable(content)
    if not isinstance(content, list):
        raise WrongRequest(key, _expected("one of a string or array of objects", content))
    return joint.join(part_text(part, f"{key}[{index}]") for index, part in enumerate(content))


def part_text(part: Any, key: str) -> str:
    """Return a part of a content as text, such as `[image]` for a part that is none."""
    if isinstance(part, str):
        return writable(part)
    if not isinstance(part, dict):
        raise WrongRequest(key, _expected("an object", part))
    kind = text_at(part, "type", key)
    if kind in PROVIDERS["texts"]:  # by their types, the fields of the parts that are text
        return text_at(part, PROVIDERS["texts"][kind], key)
    return f"[{PROVIDERS['parts'].get(kind, kind or 'part')}]"


Piece = str | values.ReasoningDelta | values.ToolCall | values.ToolMessage | None
"""A part of a message as it was read: text, a thought, a call, a result, or nothing."""


def user_messages(pieces: Iterable[Piece]) -> Iterator[values.Message]:
    """Yield the messages that the parts of one of the user make: the results, then the text."""
    said: list[str] = []
    for each in pieces:
        if isinstance(each, values.ToolMessage):
            yield each
        elif isinstance(each, str):
            said.append(each)
    if said:
        yield values.UserMessage("\n".join(said))


def model_message(pieces: Iterable[Piece]) -> values.AssistantMessage:
    """Return the message that the parts of one of the model make."""
    read = list(pieces)
    thoughts = [each.text for each in read if isinstance(each, values.ReasoningDelta)]
    said = [each for each in read if isinstance(each, str)]
    calls = [each for each in read if isinstance(each, values.ToolCall)]
    return values.AssistantMessage("".join(said), tuple(calls), "".join(thoughts))


def tool_spec(tool: JsonObject, key: str, schema: str) -> ToolSpec:
    """Return a tool whose JSON Schema stands in the field `schema`."""
    if not (name := text_at(tool, "name", key)):
        message = f"Missing required parameter: '{_place(key, 'name')}'."
        raise WrongRequest(_place(key, "name"), message)
    parameters = object_text(object_at(tool, schema, key) or ANY_OBJECT, _place(key, schema))
    return ToolSpec(name, text_at(tool, "description", key), msgspec.Raw(parameters.encode()))


def output_of(form: JsonObject, key: str, *, is_strict: bool = False) -> StructuredOutput | None:
    """Return the object that a request asks for, by the form of its answer."""
    if (kind := form.get("type")) not in ("json_schema", "json_object"):
        return None
    given = object_at(form, "json_schema", key) or form
    schema = object_text(object_at(given, "schema", key) or ANY_OBJECT, key)
    is_strict = kind == "json_schema" and (is_strict or given.get("strict") is True)
    return StructuredOutput(msgspec.Raw(schema.encode()), is_strict)


def chosen(
    body: JsonObject, tools: tuple[ToolSpec, ...]
) -> tuple[tuple[ToolSpec, ...], StructuredOutput | None]:
    """Return the tools that a request lets the model call, and the arguments of one it forces."""
    choice = body.get("tool_choice")
    given: JsonObject = choice if isinstance(choice, dict) else {"type": choice}
    if given.get("type") == "none":
        return (), None
    named = given["function"] if isinstance(given.get("function"), dict) else given
    found = next((each for each in tools if each.name == named.get("name")), None)
    return tools, None if found is None else StructuredOutput(found.parameters, tool=found.name)


def tools_of(body: JsonObject, own: Collection[str | None], schema: str) -> tuple[ToolSpec, ...]:
    """Return the tools of a request: a type in `own` has a schema, others are the provider's."""
    return tuple(
        tool_spec(one, key, schema) if one.get("type") in own else provider_tool(one, key)
        for key, one in objects_at(body, "tools")
    )


def provider_tool(tool: JsonObject, key: str) -> ToolSpec:
    """Return a tool that the provider itself runs; its type is its name."""
    return ToolSpec(text_at(tool, "type", key), "", msgspec.Raw(canonical_json(ANY_OBJECT)))


def _place(key: str, field: str) -> str:
    return f"{key}.{field}" if key else field


def _expected(wanted: str, value: object) -> str:
    return f"Invalid type: expected {wanted}, but got {_TYPES[type(value)]}."


_TYPES: Mapping[type, str] = {
    str: "a string", int: "an integer", float: "a decimal number", bool: "a boolean",
    list: "an array", dict: "an object", type(None): "null",
}  # fmt: skip
