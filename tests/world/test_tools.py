"""Tools: read from a function or given with a schema, and worded the same in every version."""

import functools
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import ScenarioError, Tool
from simloop.world.tools import canonical_json, toolbox, wrong_arguments


def read(path: str, limit: int = 10) -> str:
    """Read a file.

    Not all of it.
    """
    return path[:limit]


async def fetch(url: str) -> str:
    return url


class Reader:
    """Reads."""

    async def __call__(self, path: str) -> str:
        return path


def schema_of(function: Callable[..., Any]) -> Any:
    return msgspec.json.decode(Tool(function).spec.parameters)


def findings(schema: dict[str, Any], arguments: Any) -> list[str]:
    return wrong_arguments(Tool(read, parameters=schema), arguments)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


# ------------------------------------------------------------------------- a tool


def test_a_tool_is_called_what_its_function_is_called() -> None:
    assert Tool(read).spec.name == "read"


def test_a_tool_is_described_by_the_first_line_of_the_docstring() -> None:
    assert Tool(read).spec.description == "Read a file."


def test_a_function_without_docstring_has_no_description() -> None:
    assert Tool(fetch).spec.description == ""


def test_a_given_name_and_description_go_before_those_of_the_function() -> None:
    spec = Tool(read, name="cat", description="Print.").spec
    assert (spec.name, spec.description) == ("cat", "Print.")


def test_the_schema_is_read_from_the_signature() -> None:
    schema = schema_of(read)
    assert (schema["required"], sorted(schema["properties"])) == (["path"], ["limit", "path"])


def test_arguments_that_the_signature_does_not_know_are_wrong() -> None:
    assert wrong_arguments(Tool(read), {"path": "a", "mode": "r"}) != []


def nothing_annotated(path, limit=3):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return path, limit


def takes_a_socket(socket: "NotDefinedAnywhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(socket)


@pytest.mark.parametrize("function", [nothing_annotated, takes_a_socket, len, lambda **_: ""])
def test_any_function_gives_some_schema_of_an_object(function: Callable[..., Any]) -> None:
    assert schema_of(function)["type"] == "object"


@pytest.mark.parametrize("function", [fetch, Reader(), functools.partial(fetch, "u")])
def test_an_async_function_is_known_as_one_when_it_is_registered(
    function: Callable[..., Any],
) -> None:
    assert Tool(function, name="t").function.is_async


def test_a_plain_function_is_known_as_one_when_it_is_registered() -> None:
    assert not Tool(read).function.is_async


def test_the_schema_is_canonical_json() -> None:
    spec = Tool(read, parameters={"type": "object", "additionalProperties": False}).spec
    assert bytes(spec.parameters) == b'{"additionalProperties":false,"type":"object"}'


@pytest.mark.parametrize("schema", [{"type": "no such type"}, {"required": 5}, {"pattern": "("}])
def test_a_schema_that_is_none_is_an_error_that_names_the_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=re.escape("tools.read.parameters")):
        Tool(read, parameters=schema)


@pytest.mark.parametrize("uri", ["https://example.com/s.json", "file:///etc/passwd", "other.json"])
def test_a_remote_reference_is_refused(uri: str) -> None:
    with pytest.raises(ScenarioError, match="not a JSON Schema"):
        Tool(read, parameters={"$ref": uri})


def test_a_reference_within_the_schema_is_followed() -> None:
    schema = {"$ref": "#/$defs/path", "$defs": {"path": closed(path={"type": "string"})}}
    assert findings(schema, {"path": 3}) == ['path: must have type "string"']


def test_of_a_referred_schema_with_an_id_of_its_own_only_the_keyword_is_said() -> None:
    own = {"$id": "count", "minimum": 3}
    schema = {**closed(n={"$ref": "count"}), "$defs": {"count": own}}
    assert findings(schema, {"n": 1}) == ["n: must have the minimum of its schema"]


# ------------------------------------------------------------------------- a toolbox


def test_a_toolbox_of_a_list_names_tools_by_their_functions() -> None:
    assert list(toolbox([read, fetch])) == ["read", "fetch"]


def test_a_toolbox_of_a_mapping_names_tools_by_its_keys() -> None:
    assert list(toolbox({"cat": read})) == ["cat"]


def test_a_toolbox_takes_a_tool_as_it_is() -> None:
    tool = Tool(read, name="cat")
    assert toolbox([tool])["cat"] is tool


# ------------------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("schema", "arguments", "lines"),
    [
        (closed(n={"type": "integer"}), {"n": "x"}, ['n: must have type "integer"']),
        (closed(n={"type": ["integer", "null"]}), {"n": 1.5},
         ['n: must have type ["integer","null"]']),
        (closed(n={"minimum": 3}), {"n": 1}, ["n: must have minimum 3"]),
        (closed(n={"enum": ["a", "b"]}), {"n": "c"}, ['n: must have enum ["a","b"]']),
        (closed(n={"pattern": "^a"}), {"n": "b"}, ['n: must have pattern "^a"']),
        (closed(), {"b": 1, "a": 2}, ["arguments: not known: a, b"]),
        (closed(o=closed(n={"type": "integer"})), {"o": {"n": "x"}},
         ['o.n: must have type "integer"']),
        (closed(l={"items": {"type": "integer"}}), {"l": [1, "x"]},
         ['l.1: must have type "integer"']),
        ({"type": "object", "required": ["b", "a"]}, {},
         ["arguments: a is missing", "arguments: b is missing"]),
        ({"type": "object"}, [], ['arguments: must have type "object"']),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_our_words(
    schema: dict[str, Any], arguments: Any, lines: list[str]
) -> None:
    assert findings(schema, arguments) == lines


def test_right_arguments_have_no_findings() -> None:
    assert findings(closed(n={"type": "integer"}), {"n": 1}) == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(anything)
def test_arguments_are_wrong_for_a_type_exactly_if_there_is_a_finding(arguments: Any) -> None:
    assert bool(findings({"type": "object"}, arguments)) is not isinstance(arguments, dict)


# ------------------------------------------------------------------------- canonical JSON


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers()))
def test_equal_values_give_equal_bytes(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical_json(backwards) == canonical_json(value)


def test_canonical_json_has_sorted_keys_no_spaces_and_plain_characters() -> None:
    assert canonical_json({"b": [1, 2], "a": "é"}) == '{"a":"é","b":[1,2]}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"n": float("-inf")}])
def test_numbers_that_json_does_not_have_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)
