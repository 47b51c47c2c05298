"""Arguments from the schemas of tools: those that people write, and those that nobody would."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop.errors import ScenarioError
from simloop.fuzz.arguments import PLAIN_TEXTS, Arguments, Schema, text_of_pattern
from simloop.world.tools import canonical_json, validator_of

PATTERNS = (
    "^[a-z]{3}-[0-9]+$", r"^\d{4}-\d{2}-\d{2}$", "^(draft|sent)$", "[一-鿿]", "^#[0-9A-Fa-f]{6}$",
    "^[^\\s@]+@[^\\s@]+\\.[a-z]{2,}$", "^/", "v?[0-9]+(\\.[0-9]+)*", "^[A-Z]{2}\\d*$", "x{2,}y+?",
)  # fmt: skip


def sizes(low: str, high: str, most: int) -> st.SearchStrategy[dict[str, int]]:
    """Bounds that do not contradict each other."""
    pair = st.tuples(st.integers(0, most), st.integers(0, most)).map(sorted)
    chosen = st.sets(st.sampled_from((low, high)))
    return st.builds(
        lambda of, keys: {k: v for k, v in zip((low, high), of, strict=True) if k in keys},
        pair,
        chosen,
    )


def typed(name: str, bounds: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Any]:
    return bounds.map(lambda of: {"type": name, **of})


TEXTS = st.one_of(
    typed("string", sizes("minLength", "maxLength", 2_000)),
    st.sampled_from(PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern}),
    st.just({"type": "string", "pattern": "^[a-z]+$", "minLength": 9}),
    st.sampled_from(("date", "email", "uuid", "nonesuch")).map(
        lambda form: {"type": "string", "format": form}
    ),
    st.lists(st.text(max_size=5), min_size=1).map(lambda words: {"enum": words}),
    st.just({"const": "only"}),
    st.just({"type": "string", "default": "usual"}),
    st.just({"type": "string", "default": 5}),
)
NUMBERS = st.one_of(
    typed("integer", sizes("minimum", "maximum", 50)),
    typed("number", sizes("minimum", "maximum", 50)),
    st.just({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    st.just({"type": "integer", "exclusiveMaximum": -3}),
    st.integers(-99, 99).map(lambda n: {"type": "integer", "minimum": n, "multipleOf": 7}),
    st.just({"type": "integer", "minimum": 1.5, "maximum": 2.5}),
    st.just({"type": ["null", "integer"], "minimum": 10**6}),
)
LEAVES = st.one_of(
    TEXTS, NUMBERS, st.just({"type": "boolean"}), st.just({"type": "null"}), st.just({}),
    st.just({"$ref": "#/$defs/word"}), st.just({"$ref": "#/$defs/a~1b%20c"}),
    st.just({"$ref": "#/$defs/tree"}), st.just({"$ref": "#/$defs/either"}),
)  # fmt: skip
NAMES = st.sampled_from(("path", "order_id", "n", "a b", "", "__class__", "\x1b[2J", "$ref2"))
DEFINED = {
    "word": {"type": "string", "maxLength": 4},
    "a/b c": {"type": "integer", "minimum": 3},
    "either": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
    "tree": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "number"}]},
    "node": {
        "type": "object",
        "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
        "required": ["left", "right"],
    },
}


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    required = draw(st.lists(st.sampled_from([*properties, "unnamed"]), unique=True, max_size=3))
    found: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if draw(st.booleans()):
        found["additionalProperties"] = draw(inner) if "unnamed" in required else False
    return found


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        objects(inner),
        st.builds(lambda of, each: {"type": "array", "items": each, **of},
                  sizes("minItems", "maxItems", 4), inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda of: {
            "type": "array", "prefixItems": of, "minItems": len(of), "maxItems": len(of)}),
        st.lists(inner, min_size=1, max_size=3).map(lambda of: {"anyOf": of}),
        inner.map(lambda each: {"anyOf": [{"type": "null"}, each]}),
        inner.map(lambda each: {"allOf": [each], "description": "Part of it."}),
    )  # fmt: skip


FAIR = objects(st.one_of(LEAVES, around(st.one_of(LEAVES, around(LEAVES))))).map(
    lambda schema: {**schema, "$defs": DEFINED}
)

KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "enum",
    "const", "default", "$ref", "$defs", "additionalProperties", "minItems", "maxItems",
    "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "pattern", "format", "uniqueItems", "not", "if", "then",
)  # fmt: skip
ODD = st.one_of(
    st.sampled_from(("#", "#/properties", "#/$defs/a", "#/nothing", "https://far.example/schema",
                     "object", "array", "string", "integer", "number", "null", "boolean", "[",
                     "(a+)+$", "(?P<x", "\\p{L}+", "((x{99}){99}){99}", "a{4000000000}", "date")),
    st.sampled_from((0, -1, 3, 10**9, 10**400, 1e308, 5e-324, 0.1, True, False, None)),
)  # fmt: skip
HOSTILE = st.recursive(
    ODD,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from((*KEYWORDS, "a")), inner, max_size=5),
        st.lists(inner, max_size=3),
    ),
    max_leaves=25,
)


def validator(schema: Any) -> Any:
    return validator_of(canonical_json(schema), "tool")


def check(made: Arguments, schema: Any) -> None:
    try:
        judge = validator(schema)
    except ScenarioError:
        return  # only the agent knows what it takes
    assert all(map(judge.is_valid, made.edges))
    assert not any(map(judge.is_valid, made.broken))
    assert judge.is_valid(made.plain) or not made.edges


@pytest.mark.slow
@given(FAIR)
def test_the_plain_arguments_and_the_edges_are_valid_and_broken_ones_are_not(
    schema: Schema,
) -> None:
    made = Arguments(schema)
    check(made, schema)
    assert validator(schema).is_valid(made.plain), made.plain
    assert made.number(0) == made.plain
    assert made.number(len(made.edges) + 1) == made.plain
    assert all(made.number(n + 1) is each for n, each in enumerate(made.edges))


@pytest.mark.slow
@given(HOSTILE)
def test_no_schema_breaks_or_stops_the_search(schema: Any) -> None:
    made = Arguments(schema)
    check(made, schema)
    assert isinstance(made.plain, dict)
    assert max(len(json.dumps(each)) for each in (made.plain, *made.edges, *made.broken)) < 10**6
    assert len(made.edges) + len(made.broken) < 1_000


@pytest.mark.slow
@given(st.one_of(FAIR, HOSTILE))
def test_equal_schemas_give_equal_arguments(schema: Any) -> None:
    one, other = Arguments(schema), Arguments(json.loads(json.dumps(schema)))
    assert (one.plain, one.edges, one.broken) == (other.plain, other.edges, other.broken)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#"}, marks=pytest.mark.slow),
        pytest.param({"allOf": [{"$ref": "#"}] * 9}, marks=pytest.mark.slow),
        pytest.param({"anyOf": [{"$ref": "#"}] * 9}, marks=pytest.mark.slow),
        of(**{f"c{n}": {"$ref": "#"} for n in range(12)}),
        {"properties": {f"c{n}": {"$ref": "#"} for n in range(12)}},
        of(c={"$ref": "#/$defs/nothing"}),
        of(c={"anyOf": [{"$ref": "#/properties/c"}, {"type": "null"}]}),
        of(c={"type": "array", "minItems": 10**9}),
        of(c={"type": "string", "minLength": 10**12}),
        of(c={"type": "string", "maxLength": 10**12}),
        of(c={"type": "array", "maxItems": 10**12, "items": {"type": "array", "maxItems": 10**9}}),
        of(c={"type": "integer", "minimum": 3, "maximum": 1}),
        of(c={"type": "string", "pattern": "(a+)+$(?=b)"}),
        of(**{"x" * 100_000: {"type": "string"}}),
        of(**{f"c{n}": {"type": "string"} for n in range(500)}),
    ],
    ids=range(15),
)
def test_an_endless_or_contradictory_schema_gives_few_and_short_arguments(schema: Any) -> None:
    made = Arguments(schema)
    check(made, schema)
    assert max(len(json.dumps(each)) for each in (made.plain, *made.edges, *made.broken)) < 10**6
    assert len(made.edges) + len(made.broken) < 1_000


def edges(schema: Any, name: str = "c") -> list[Any]:
    return [each[name] for each in Arguments(of(**{name: schema})).edges if [*each] == [name]]


def test_the_edges_of_a_text_a_number_and_a_list() -> None:
    assert edges({"enum": ["a", "b", 3]}) == ["b", 3]
    texts = edges({"type": "string", "maxLength": 12})
    assert {"", " ", "x" * 12, "null"} <= {*texts}
    assert "\u202e" in "".join(texts)
    numbers = edges({"type": "integer", "minimum": -4, "maximum": 2**31})
    assert {-4, 0, -1, 100, 2**31} <= {*numbers}
    assert 0.1 not in numbers
    lists = edges({"type": "array", "items": {"type": "integer"}, "maxItems": 3})
    assert {len(each) for each in lists} == {0, 1, 2, 3}
    assert [""] in edges({"type": "array", "items": {"type": "string"}})
    assert edges({"type": ["boolean", "null"]}) == [False, None]
    assert {"some key": 1} in edges({"type": "object", "additionalProperties": {"type": "integer"}})


def test_each_argument_has_its_first_edge_before_any_has_its_second() -> None:
    number = {"type": "integer", "minimum": 1, "maximum": 3}
    made = Arguments(of(a=number, b=number))
    first = [(each["a"], each["b"]) for each in made.edges if each.keys() == {"a", "b"}]
    assert first[:4] == [(2, 1), (1, 2), (3, 1), (1, 3)]


def test_four_words_that_a_schema_lists_count_as_one_edge() -> None:
    words = {"enum": ["a", "b", "c", "d", "e"]}
    made = Arguments(of(n={"type": "integer", "minimum": 1, "maximum": 3}, one=words, other=words))
    changed = [
        [(key, one[key]) for key in ("n", "one", "other") if one[key] != made.plain[key]]
        for one in made.edges
    ]
    assert changed[:3] == [[("one", each)] for each in "bcd"]
    assert changed[3:6] == [[("other", each)] for each in "acd"], "no word that is beside it"
    assert changed[6:] == [[("n", 2)], [("one", "e")], [("other", "e")], [("n", 3)], []]


def test_the_edges_of_an_object_inside_are_edges_too() -> None:
    schema = of(filter=of(limit={"type": "integer", "minimum": 1}))
    assert {"filter": {"limit": 10**15}} in Arguments(schema).edges


def test_broken_arguments_miss_a_key_or_have_another_type_or_a_key_too_many() -> None:
    schema = {**of(path={"type": "string"}), "additionalProperties": False}
    assert Arguments(schema).broken == [
        {}, {"path": 17}, {"path": None}, {"path": "some path", "no_such_argument": True},
    ]  # fmt: skip


def test_optional_arguments_are_left_out_if_others_are_required_and_given_if_none_is() -> None:
    both = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert Arguments({"type": "object", "properties": both}).plain == {"a": 1, "b": 1}
    assert Arguments({"type": "object", "properties": both, "required": ["b"]}).plain == {"b": 1}


def test_a_value_that_a_tool_returned_is_used_where_the_schema_allows_it() -> None:
    known: dict[str, list[Any]] = {
        "order_id": ["A-1", "A-2"],
        "id": [5, "u9"],
        "limit": [5_000],
        "mail": ["x" * 99],
    }
    schema = of(
        order_id={"type": "string"}, user_id={"type": "integer"},
        limit={"type": "integer", "maximum": 100}, mail={"type": "string", "maxLength": 20},
        kind={"enum": ["a"]},
    )  # fmt: skip
    plain = Arguments(schema, known).plain
    mail = "a@example.com"
    assert plain == {"order_id": "A-2", "user_id": 5, "limit": 1, "mail": mail, "kind": "a"}


def test_two_places_or_ids_of_a_call_differ() -> None:
    """A tool may refuse to move something to the place where it is."""
    places = {"enum": ["north", "south"]}
    schema = of(source=places, target=places, from_id={}, to_id={}, by={"enum": ["north"]})
    known: dict[str, list[Any]] = {"id": ["A-1", "A-2"]}
    assert Arguments(schema, known).plain == {
        "source": "north", "target": "south", "from_id": "A-2", "to_id": "A-1", "by": "north"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "some tag"),
        ({"type": "string", "examples": ["v2"]}, "v2"),
        ({"type": "string", "description": "A tag, such as v1.4."}, "v1.4"),
        ({"type": "string", "description": "e.g. 'the last one'"}, "the last one"),
        ({"type": "string", "description": "such as the last one"}, "some tag"),
        ({"type": "string", "description": "A weekday, e.g. Monday."}, "Monday"),
        ({"type": "string", "description": "such as v1.4", "maxLength": 3}, "som"),
    ],
)
def test_a_plain_text_is_the_example_that_a_schema_has(schema: Any, expected: str) -> None:
    assert Arguments(of(tag=schema)).plain == {"tag": expected}


def test_the_plain_arguments_are_those_of_a_script_if_the_schema_allows_them() -> None:
    schema = of(tag={"type": "string"})
    assert Arguments(schema, given={"tag": "red"}).plain == {"tag": "red"}
    for other in ({"tag": 3}, ["red"], None):
        assert Arguments(schema, given=other).plain == {"tag": "some tag"}


def test_a_plain_text_has_several_forms_and_a_day_is_a_date() -> None:
    schema = of(the_tag={"type": "string"}, birthday={"type": "string"})
    found = [Arguments(schema, form=form).plain for form in range(len(PLAIN_TEXTS))]
    assert [each["the_tag"] for each in found] == [
        "some the_tag", "thetag1", "2026-03-01", "1", "thetag1",
    ]  # fmt: skip
    assert found[0]["birthday"] == "2026-03-01"


def test_a_hostile_pattern_is_not_tried_on_what_a_tool_returned() -> None:
    schema = of(name={"type": "string", "pattern": "^(a+)+$"})
    known = {"name": [*(f"{'a' * 40}!{n}" for n in range(50)), "aa"]}
    assert Arguments(schema, known).plain == {"name": "aa"}
    assert Arguments(schema, {"name": known["name"][:50]}).plain == {"name": "a"}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_is_made_for_the_patterns_that_people_write(pattern: str) -> None:
    assert re.search(pattern, text_of_pattern(pattern))


def test_no_pattern_is_an_error_or_gives_a_long_text() -> None:
    for pattern in ("[", "(?P<x", r"\p{L}", "[[a]", "(" * 5_000, "a{99999999999999999999}"):
        assert len(text_of_pattern(pattern)) < 10
    assert len(text_of_pattern("((a{1000}){1000}){1000}")) == 10_000
    assert text_of_pattern("[^\x00-\uffff]") == "a"


@pytest.mark.parametrize(("name", "is_refused"), [("path", True), ("title", False)])
def test_a_path_is_also_one_that_a_file_system_refuses(name: str, *, is_refused: bool) -> None:
    made = Arguments({"type": "object", "properties": {name: {"type": "string"}}})
    first = [each.get(name) for each in made.edges[:2]]
    assert (first == [".", "x" * 3_000]) is is_refused


@pytest.mark.parametrize(("kind", "is_there"), [("number", True), ("integer", False)])
def test_an_amount_has_a_hundredth_that_a_float_has_not(kind: str, *, is_there: bool) -> None:
    made = Arguments({"type": "object", "properties": {"euros": {"type": kind}}})
    assert ({"euros": 1150.1} in (*made.edges[:8], *made.broken)) is is_there


def test_a_number_has_each_edge_once() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}
    numbers = [each["n"] for each in Arguments(schema).edges if "n" in each]
    assert len({*numbers}) == len(numbers) > 3
