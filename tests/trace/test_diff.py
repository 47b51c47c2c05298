from typing import Any

import msgspec
import pytest

from simloop.errors import ScenarioError
from simloop.messages import (
    AssistantMessage,
    Counters,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.trace.diff import CONTEXT, Divergence, first_difference, without_lines
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.world.world import World

SCENARIO = """\
prompt: Hi
tools: {look: {parameters: {path: string}, returns: "# Hello"}}
model:
  - {http: {status: 500}}
  - {say: Let me look., call: {look: {path: a.md}}}
  - say: It says Hello.
"""


@pytest.fixture(scope="module")
def trace() -> LoopTrace:
    return run(parse_scenario(SCENARIO)).trace


def place(trace: LoopTrace, kind: type[AnyEntry]) -> int:
    """Where the trace has its first entry of this kind."""
    return next(seq for seq, entry in enumerate(trace.entries) if isinstance(entry, kind))


def with_entry(trace: LoopTrace, seq: int, entry: AnyEntry) -> LoopTrace:
    record = [*trace.entries[:seq], entry, *trace.entries[seq + 1 :]]
    return msgspec.structs.replace(trace, entries=record)


def changed(trace: LoopTrace, seq: int, **fields: Any) -> LoopTrace:
    return with_entry(trace, seq, msgspec.structs.replace(trace.entries[seq], **fields))


def difference(expected: LoopTrace, got: LoopTrace) -> Divergence:
    found = first_difference(expected, got)
    assert found is not None
    return found


class TestRunsThatAreTheSame:
    def test_have_no_difference(self, trace: LoopTrace) -> None:
        assert first_difference(trace, run(parse_scenario(SCENARIO)).trace) is None

    def test_are_so_after_one_was_written_and_read(self, trace: LoopTrace) -> None:
        # The file's footer has a digest, that of a run just made has none yet.
        read = decode(encode(trace))
        assert read.footer != trace.footer
        assert first_difference(trace, read) is None
        assert first_difference(read, trace) is None

    def test_may_have_other_headers(self, trace: LoopTrace) -> None:
        header = msgspec.structs.replace(trace.header, seed=7)
        assert first_difference(trace, msgspec.structs.replace(trace, header=header)) is None


class TestADifference:
    def test_in_a_field_is_named_with_the_kind_of_its_entry(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.ToolResult)
        found = difference(trace, changed(trace, seq, text="# Bye"))
        assert (found.seq, found.field) == (seq, "tool-result.text")
        assert (found.expected, found.got) == ("# Hello", "# Bye")

    def test_inside_a_field_is_named_down_to_the_innermost(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.Error)
        error = trace.entries[seq]
        assert isinstance(error, entries.Error)
        fault = msgspec.structs.replace(error.fault, status=503)
        found = difference(trace, changed(trace, seq, fault=fault))
        assert (found.field, found.expected, found.got) == ("error.fault.status", 500, 503)

    def test_in_a_field_that_only_one_has_is_nothing_on_the_other_side(
        self, trace: LoopTrace
    ) -> None:
        seq = place(trace, entries.ToolResult)
        found = difference(trace, changed(trace, seq, is_error=True))
        assert (found.field, found.expected, found.got) == ("tool-result.is_error", None, True)

    def test_of_kind_shows_both_entries_whole(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.TextDelta)
        at_ns = trace.entries[seq].at_ns
        found = difference(
            trace, with_entry(trace, seq, entries.ReasoningDelta(seq, at_ns, 2, "Hm"))
        )
        assert (found.seq, found.field) == (seq, "kind")
        assert found.expected == "2.000s  text Let"
        assert found.got == "2.000s  reasoning Hm"

    @pytest.mark.parametrize("side", ["expected", "got"])
    def test_of_length_shows_the_entry_that_the_other_run_lacks(
        self, trace: LoopTrace, side: str
    ) -> None:
        short = msgspec.structs.replace(trace, entries=trace.entries[:-1])
        pair = (short, trace) if side == "expected" else (trace, short)
        found = difference(*pair)
        assert (found.seq, found.field) == (len(trace.entries) - 1, "kind")
        assert getattr(found, side) is None
        assert (found.expected, found.got).count(None) == 1
        assert "nothing: the run has ended" in "\n".join(found.lines())

    @pytest.mark.parametrize(
        ("field", "value", "shown"),
        [
            ("text", "Bye", ("ended.text", "Bye")),
            ("limit", "max_steps", ("ended.limit", "max_steps")),
            ("counters", Counters(4, 2, 0), ("ended.counters.error_count", 4)),
        ],
    )
    def test_in_the_end_of_a_run_is_in_its_entry(
        self, trace: LoopTrace, field: str, value: Any, shown: tuple[str, Any]
    ) -> None:
        last = len(trace.entries) - 1
        found = difference(trace, changed(trace, last, **{field: value}))
        assert (found.seq, (found.field, found.got)) == (last, shown)

    def test_in_the_footer_is_at_the_end_of_the_trace(self, trace: LoopTrace) -> None:
        assert trace.footer is not None
        footer = msgspec.structs.replace(trace.footer, elapsed_ns=1)
        found = difference(trace, msgspec.structs.replace(trace, footer=footer))
        assert (found.seq, found.field, found.got) == (None, "elapsed_ns", 1)
        assert next(found.lines()) == "the first difference is in the end of the run, elapsed_ns:"
        assert len(found.context) == CONTEXT

    def test_that_is_told_is_the_first_one(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.TextDelta)
        last = len(trace.entries) - 1
        other = changed(changed(trace, seq, text="Well"), last, text="Bye")
        assert difference(trace, other).seq == seq


class TestTheContext:
    def test_is_the_three_entries_before_it(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.ToolStarted)
        found = difference(trace, changed(trace, seq, name="other"))
        assert found.context == (
            '2.000s  call look {"path":"a.md"} [call-1]',
            "2.000s  finish tool-calls",
            "2.000s  -> running-tools on model-replied (errors 1, steps 1, compactions 0)",
        )

    def test_is_shorter_at_the_beginning(self, trace: LoopTrace) -> None:
        assert difference(trace, changed(trace, 0, text="Bye")).context == ()
        assert difference(trace, changed(trace, 1, state="other")).context == ("0.000s  prompt Hi",)


class TestTheText:
    def test_names_both_sides_and_aligns_them(self) -> None:
        found = Divergence(7, "finish.reason", "stop", "length", ("0.000s  text Hi",))
        assert list(found.lines("recorded", "now")) == [
            "the first difference is in entry 7, finish.reason:",
            "    0.000s  text Hi",
            "  - recorded  stop",
            "  + now       length",
        ]

    def test_shows_values_as_json_and_text_as_it_is(self) -> None:
        *_, one, other = Divergence(0, "x", {"a": [1]}, "1", ()).lines()
        assert one.endswith('{"a":[1]}')
        assert other.endswith("  1")

    def test_of_long_texts_shows_where_they_differ(self) -> None:
        long = "x" * 5_000
        *_, one, other = Divergence(0, "text", f"{long}a{long}", f"{long}b{long}", ()).lines()
        assert "xa" in one
        assert "xb" in other
        assert len(one) == len(other) < 300

    def test_prints_no_control_character_and_no_endless_line(self, trace: LoopTrace) -> None:
        seq = place(trace, entries.ToolResult)
        hostile = "\x1b[2J\r\u202e" + "x" * 10_000_000
        context = changed(trace, seq, text=hostile)
        found = difference(context, changed(context, seq + 1, text="\x9b1m"))
        lines = list(found.lines())
        assert all(line.isprintable() and len(line) < 300 for line in lines)
        assert "\\x1b[2J" in "\n".join(lines)


SHOP = """\
system_prompt: "You look after a shop.\\nBe kind.\\nBe quick."
prompt: Hi
tools: {look: {parameters: {path: string}, returns: "one\\ntwo\\nthree\\nfour"}, pay: {}}
model: [{say: Let me look., call: {look: {path: a.md}}}, {say: It says Hello.}]
"""
ASKED: list[Message] = [
    UserMessage("What does it say?"),
    AssistantMessage("I look.", (ToolCall("call-1", "look", '{"path":"a.md"}'),)),
    ToolMessage("call-1", f"{'word ' * 200}Hello. {'word ' * 200}"),
]


def told(one: LoopTrace, other: LoopTrace) -> list[str]:
    """How two runs differ, without the entries before it."""
    lines = difference(one, other).lines()
    return [line for line in lines if not line.startswith("    ")]


def edited(old: str, new: str) -> list[str]:
    """How the runs of a scenario and of an edited one differ."""
    assert old in SHOP
    one, other = (run(parse_scenario(text)).trace for text in (SHOP, SHOP.replace(old, new)))
    return told(one, other)


def sent(*messages: Message) -> LoopTrace:
    """The run of an agent that sends these messages."""

    async def agent(_: str, world: World) -> None:
        await world.model.reply(messages)

    return run(Scenario(prompt="Go.", model=[Reply(say="Done.")]), loop=agent).trace


class TestADifferenceOfRequests:
    @pytest.mark.parametrize(
        ("old", "new", "where", "values"),
        [
            (
                *("Be kind", "Be fair", "the system prompt, line 2"),
                ("…Be kind.\\nBe quick.", "…Be fair.\\nBe quick."),
            ),
            (", pay: {}", "", "the tools", ("look, pay", "look")),
            (
                *("path: string", "path: integer"),
                *("the tool look, parameters.properties.path.type", ("string", "integer")),
            ),
        ],
        ids=["system prompt", "tools", "tool"],
    )
    def test_names_the_prompt_or_the_tool(
        self, old: str, new: str, where: str, values: tuple[str, str]
    ) -> None:
        assert edited(old, new) == [
            f"the first difference is in entry 3, request #1, {where}:",
            f"  - expected  {values[0]}",
            f"  + got       {values[1]}",
        ]

    @pytest.mark.parametrize(
        ("messages", "where", "values"),
        [
            (
                [UserMessage("What did it say?"), *ASKED[1:]],
                *("messages[0] (user)", ("What does it say?", "What did it say?")),
            ),
            (
                [ASKED[0], AssistantMessage("I look.", (ToolCall("call-1", "look", "{}"),))],
                "messages[1] (assistant), calls[0].arguments",
                ('{"path":"a.md"}', "{}"),
            ),
            (
                [ASKED[0], UserMessage("Look.")],
                "messages[1]",
                ('assistant: I look. look({"path":"a.md"})', "user: Look."),
            ),
            (ASKED[:1], "messages[1]", ('assistant: I look. look({"path":"a.md"})', "nothing")),
            ([*ASKED, UserMessage("\x1b[2J")], "messages[3]", ("nothing", "user: \\x1b[2J")),
        ],
        ids=["text", "call", "role", "fewer", "more"],
    )
    def test_names_the_message_and_its_role(
        self, messages: list[Message], where: str, values: tuple[str, str]
    ) -> None:
        assert told(sent(*ASKED), sent(*messages)) == [
            f"the first difference is in entry 1, request #1, {where}:",
            f"  - expected  {values[0]}",
            f"  + got       {values[1]}",
        ]

    def test_shows_the_words_around_it_of_a_long_text(self) -> None:
        changed_result = ToolMessage("call-1", ASKED[2].text.replace("Hello", "Bye"))
        where, *values = told(sent(*ASKED), sent(*ASKED[:2], changed_result))
        assert where == "the first difference is in entry 1, request #1, messages[2] (tool):"
        assert [value[:67] for value in values] == [
            f"  - expected  …{'word ' * 9}Hello. ",
            f"  + got       …{'word ' * 9}Bye. wo",
        ]
        assert max(map(len, values)) < 250

    def test_has_the_whole_texts_as_values(self) -> None:
        found = difference(sent(*ASKED), sent(UserMessage("?"), *ASKED[1:]))
        assert found.field == "request.messages[0].text"
        assert (found.expected, found.got) == ("What does it say?", "?")


def test_a_difference_of_replies_is_in_a_piece_and_the_text_before_it_is_one_line() -> None:
    one, other = (run(parse_scenario(text)).trace for text in (SHOP, SHOP.replace("Hello", "Bye")))
    found = difference(one, other)
    assert (found.field, found.expected, found.got) == ("text-delta.text", " Hello.", " Bye.")
    assert found.context[-1].endswith("text It says")


def napping(line: int, function: str = "nap") -> LoopTrace:
    """The run of an agent whose code begins at a line, and sleeps in a function."""
    source = "\n" * (line - 1) + (
        f"import asyncio\nasync def {function}():\n    await asyncio.sleep(5)\n"
        f"async def agent(_):\n    await {function}()\n"
    )
    made: dict[str, Any] = {"__name__": "napping"}
    exec(compile(source, "napping.py", "exec"), made)
    return run(Scenario(prompt="Go.", model=[]), loop=made["agent"]).trace


class TestCodeThatMoves:
    def test_to_another_line_makes_no_difference(self) -> None:
        one, other = napping(1), napping(30)
        places = [e.place for t in (one, other) for e in t.entries if isinstance(e, entries.Sleep)]
        assert places == ["napping.py:3 in nap", "napping.py:32 in nap"]
        assert first_difference(one, other) is None
        assert encode(without_lines(one)) == encode(without_lines(other))

    def test_to_another_function_does(self) -> None:
        assert told(napping(1), napping(30, "doze")) == [
            "the first difference is in entry 1, sleep.place:",
            "  - expected  napping.py in nap",
            "  + got       napping.py in doze",
        ]


def test_a_changed_file_is_refused_before_it_is_compared(trace: LoopTrace) -> None:
    with pytest.raises(ScenarioError, match="the file was changed"):
        decode(encode(trace).replace(b"# Hello", b"# Bye.."))
