"""The catalogue page, and what the bundled scenarios cover: rows, keys, words, faults."""

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from catalogue import catalogue_text, escaped
from incases import in_cases
from pydantic import BaseModel

from simloop.kernel.limits import Limits
from simloop.kernel.policies import (
    Compaction,
    CompactionStrategy,
    HookExecution,
    HookIsolation,
    OnHookFailure,
    ToolExecution,
    ToolOrder,
)
from simloop.kernel.retry import ExponentialBackoff
from simloop.loops.opencode import OpencodeOptions
from simloop.loops.pi import PiOptions
from simloop.loops.react import ReactOptions
from simloop.loops.reference import ReferenceOptions
from simloop.messages import Fault
from simloop.scenario import catalog
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.conversation import PastMessage
from simloop.scenario.designs import LoopOptions, names
from simloop.scenario.expect import Expect, ExpectedCounters
from simloop.scenario.loader import load_scenario
from simloop.scenario.replies import Http, Pace, Reply, StreamFault, TokenUsage, When
from simloop.scenario.schema import (
    ClockSkew,
    Context,
    HookPoint,
    Point,
    Queued,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    Trigger,
)
from simloop.world.chance import ChanceFaults
from simloop.world.faults import FaultPlace

PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))
SCENARIOS = [load_scenario(path) for path in PATHS]

# ---------------------------------------------------------------- the page


HEAD = (
    "| name | what must hold | loop | outcome | elsewhere | bugs |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a checkout in which the catalogue stands, with no scenarios yet."""
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "simloop" / "scenario" / "catalog.py"))
    return tmp_path / "scenarios"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_each_scenario_is_a_row_under_its_theme(folder: Path) -> None:
    write(
        folder / "b" / "two.simloop.yaml",
        "title: Two\nbugs: [A1, D13]\nprompt: x\nabort: {at: 1s}\nexpect: {outcome: aborted}\n"
        "expect_on: {pi: {outcome: failed}, opencode: {error: ScriptExhausted}}\n",
    )
    outcomes = "then: [y]\nexpect: {outcomes: [failed, completed]}\n"
    write(folder / "a" / "one.simloop.yaml", f"title: One\nprompt: x\n{outcomes}")
    page = catalogue_text()
    assert "2 runs in 2 themes." in page
    assert page.endswith(
        "## a\n\n"
        f"{HEAD}"
        "| [one](a/one.simloop.yaml) | One | reference | failed, completed |  |  |\n\n"
        "## b\n\n"
        f"{HEAD}"
        "| [two](b/two.simloop.yaml) | Two | reference | aborted | pi failed; "
        "opencode ScriptExhausted; react cannot: react has no way to stop a run | "
        "[A1](BUGS.md#a1) [D13](BUGS.md#d13) |\n"
    )


def test_a_loop_is_not_elsewhere_in_its_own_scenario(folder: Path) -> None:
    write(
        folder / "a" / "one.simloop.yaml",
        "title: One\nloop: react\nprompt: x\nabort: {at: 1s}\n",
    )
    assert catalogue_text().endswith("| One | react |  |  |  |\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("snake_case *bold* `code`", r"snake\_case \*bold\* \`code\`"),
        ("<b> [x](y) #1 ~s~", r"\<b\> \[x\](y) \#1 \~s\~"),
        ("a\\|b", r"a\\\|b"),
        ("two\n  lines", "two lines"),
        ("plain, with: punctuation.", "plain, with: punctuation."),
    ],
)
def test_text_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_title_cannot_break_the_table(folder: Path) -> None:
    write(folder / "a" / "one.simloop.yaml", 'title: "One | two\\n| three"\nprompt: x\n')
    assert catalogue_text().endswith(
        "| [one](a/one.simloop.yaml) | One \\| two \\| three | reference |  |  |  |\n"
    )


# ---------------------------------------------------------------- real bugs

BUGS = (bundled_folder() / "BUGS.md").read_text("utf-8")
ROWS = set(re.findall(r'<a id="\w+"></a>(\w+) \|', BUGS))


def test_every_row_of_the_real_bugs_has_a_scenario() -> None:
    answered = {row for scenario in SCENARIOS for row in scenario.bugs}
    assert ROWS - answered == {"E5"}, "no loop design has agents inside agents"
    assert answered <= ROWS
    assert len(PATHS) >= 200


def test_each_bug_of_the_page_has_a_sentence_and_links_to_its_report() -> None:
    rows = [line.split(" | ") for line in BUGS.splitlines() if line.startswith("| <a id=")]
    assert len(rows) == len(ROWS)
    for _, sentence, links in rows:
        assert sentence[0].isupper()
        assert sentence.endswith(".")
        assert re.fullmatch(r"(\[[\w./-]+#\d+\]\(https://github\.com/[\w./-]+\)(, )?)* ?\|", links)


def test_the_rows_that_the_mends_answer_are_on_the_page() -> None:
    text = (bundled_folder().parent / "docs" / "loops.md").read_text("utf-8")
    table = text.partition("| mend | answers |")[2].partition("\n\n")[0]
    cells = [line.split(" | ")[1] for line in table.splitlines() if " | " in line]
    named = {row for cell in cells for row in re.findall(r"\b[A-E]\d+\b", cell)}
    assert named
    assert named <= ROWS


def test_no_row_is_named_twice_in_one_scenario() -> None:
    assert [one.title for one in SCENARIOS if len(one.bugs) != len(set(one.bugs))] == []


# ---------------------------------------------------------------- keys and words


def used(value: Any) -> Iterator[tuple[str, str]]:
    """The keys that are given, with the model that they are of."""
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield type(value).__name__, name
            yield from used(getattr(value, name))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if getattr(value, field.name) != field.default:
                yield type(value).__name__, field.name
    elif isinstance(value, list):
        for item in value:
            yield from used(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from used(item)


def chosen() -> Iterator[Any]:
    """The options of each loop that is run, with those of its version."""
    for scenario in SCENARIOS:
        yield scenario.loops.of_design(scenario.loop)


USED = {key for value in (*SCENARIOS, *chosen()) for key in used(value)}
MODELS = (
    Reply, Http, StreamFault, TokenUsage, Pace, When, ScriptedTool, ScriptedHook, Trigger, Queued,
    PastMessage, Context, LoopOptions, ClockSkew, Expect, ExpectedCounters, Scenario,
)  # fmt: skip
POLICIES: tuple[Any, ...] = (
    *(ChanceFaults, Limits, ExponentialBackoff, Compaction, HookExecution, HookIsolation),
    ToolExecution,
    *(ReferenceOptions, PiOptions, ReactOptions, OpencodeOptions),
)
KEYS = [
    *((model.__name__, key) for model in MODELS for key in model.model_fields),
    *((policy.__name__, field.name) for policy in POLICIES for field in dataclasses.fields(policy)),
]


KEYS_WITHOUT_A_SCENARIO = {
    ("Scenario", "about"): "a search writes it: tests/cli/test_cli_fuzz.py",
    ("Scenario", "recorded"): "an import writes it: tests/recordings/test_replayed_cassettes.py",
    ("ScriptedTool", "answers"): "an import writes it: tests/runs/test_tool_answers.py",
    ("Scenario", "declares"): "for an agent of one's own: tests/fuzz/test_search.py",
    ("Scenario", "shuffle_ties"): "for what a search found: tests/runs/test_simulation.py",
    ("Scenario", "mcp"): "for agents with MCP: tests/wire/test_mcp_server.py",
    ("Scenario", "wire"): "for agents on SDKs: tests/wire/test_endpoint.py",
    ("Scenario", "judge_as"): "for a loop of one's own: tests/runs/test_loop.py",
    ("ScriptedHook", "command"): "programs play it: tests/runs/test_command_hooks.py",
    ("When", "output"): "for agents on SDKs: tests/world/test_parties.py",
    ("Expect", "violates"): "a design declares its deviations: tests/check/test_judged.py",
    **dict.fromkeys(
        [
            *(("Scenario", key) for key in ("services", "programs", "input")),
            *(("Scenario", key) for key in ("offline", "absent", "unscripted")),
            *(("Expect", key) for key in ("services", "programs", "refused", "exit", "asked")),
        ],
        "a bundled design reaches for nothing: tests/runs",
    ),
}


@in_cases(KEYS, ".".join)
def test_every_key_is_used_by_a_scenario_or_has_a_reason_against(key: tuple[str, str]) -> None:
    assert (key in USED) != (key in KEYS_WITHOUT_A_SCENARIO)


@pytest.mark.parametrize("loop", names())
def test_every_loop_has_a_scenario_of_its_own(loop: str) -> None:
    assert any(scenario.loop == loop for scenario in SCENARIOS)


def words(kind: Any) -> set[str]:
    """The words of a Literal, or of a union of them."""
    parts = typing.get_args(kind)
    return {word for part in parts for word in ({part} if isinstance(part, str) else words(part))}


def moments(scenario: Scenario) -> Iterable[Trigger]:
    return [*scenario.queue, *([] if scenario.abort is None else [scenario.abort])]


REPLIES = [
    (scenario, reply) for scenario in SCENARIOS for reply in (*scenario.model, *scenario.summaries)
]


def test_something_happens_at_every_point() -> None:
    met = {moment.after for scenario in SCENARIOS for moment in moments(scenario)} - {None}
    of_agents = {"refused", "input", "output"}  # a bundled design reaches for nothing
    reached = {each for each in words(Point) if each.startswith(("service-", "program-"))}
    assert met == words(Point) - reached - of_agents | {"part"}


@pytest.mark.parametrize("way", ["lost", "stall"])
def test_a_stream_ends_badly_at_every_place(way: str) -> None:
    assert {getattr(reply, way) for _, reply in REPLIES} - {None} == words(FaultPlace)


def test_there_are_hooks_at_every_point_and_policies_of_every_kind() -> None:
    assert {hook.at for scenario in SCENARIOS for hook in scenario.hooks} == words(HookPoint)
    isolations = [one.hook_isolation for one in SCENARIOS if one.hook_isolation is not None]
    assert {isolation.on_failure for isolation in isolations} == set(get_args(OnHookFailure))
    orders = {one.tool_execution.order for one in SCENARIOS if one.tool_execution is not None}
    assert orders == {*get_args(ToolOrder), None}
    strategies = {one.compaction.strategy for one in SCENARIOS if one.compaction is not None}
    assert strategies == set(get_args(CompactionStrategy))


def test_the_statuses_that_providers_send_are_all_met() -> None:
    met = {reply.http.status for _, reply in REPLIES if reply.http is not None}
    assert met >= {
        *(400, 401, 402, 403, 408, 413, 429, 500, 501, 502, 503, 504, 529),
        *range(520, 525),
    }


# ---------------------------------------------------------------- the fault alphabet

Predicate = Callable[[Scenario, Reply], bool]


def of_http(matches: Callable[[Http, Fault], bool]) -> Predicate:
    return lambda _, reply: reply.http is not None and matches(reply.http, reply.http.fault())


def waits(*values: str) -> Predicate:
    """Replies that ask for a wait in these words; without any, that do not ask."""
    return of_http(lambda _, fault: (fault.header("retry-after") or "") in (values or ("",)))


def calls(reply: Reply) -> list[tuple[str, Any]]:
    groups = [reply.call] if isinstance(reply.call, dict) else reply.call
    return [named for group in groups for named in group.items()]


def arguments(reply: Reply) -> list[Any]:
    return [value for _, value in calls(reply)]


def summary(matches: Callable[[Reply], bool]) -> Predicate:
    return lambda scenario, reply: reply in scenario.summaries and matches(reply)


ALPHABET: dict[str, Predicate] = {
    "Retry-After in seconds": waits("7.5"),
    "Retry-After in milliseconds": of_http(lambda _, fault: bool(fault.header("retry-after-ms"))),
    "Retry-After as a date to come": waits("Thu, 01 Jan 2026 00:00:45 GMT"),
    "Retry-After as a date gone by": waits("Wed, 31 Dec 2025 23:59:59 GMT"),
    "no Retry-After": waits(),
    "a huge Retry-After": waits("2147483647", "1e308"),
    "a negative Retry-After": waits("-5"),
    "a Retry-After that is no time": waits("tomorrow", "nan"),
    "headers that ask for nothing": of_http(
        lambda http, fault: bool(http.headers) and fault.header("retry-after") is None
    ),
    "a body of a proxy": of_http(lambda http, _: "<html>" in str(http.body)),
    "a 401 that says server_error": of_http(
        lambda http, _: http.status == 401 and "server_error" in str(http.body)
    ),
    "a 429 that is a quota": of_http(lambda _, fault: fault.code == "insufficient_quota"),
    "a 413 that is a rate limit": of_http(lambda _, fault: fault.code == "rate_limit_exceeded"),
    "a 400 that is throttling": of_http(lambda _, fault: "Throttling" in fault.message),
    "a 400 about one long string": of_http(lambda _, fault: "string_above" in fault.code),
    "an error part before output": lambda _, r: bool(r.error and not r.say and not r.think),
    "an error part after output": lambda _, r: bool(r.error and r.say),
    "a stream without a finish": lambda _, r: r.unfinished and bool(r.say),
    "calls without a finish": lambda _, r: r.unfinished and bool(r.call),
    "an empty reply": lambda _, r: bool(r.finish) and not (r.say or r.think or r.call),
    "nothing but reasoning": lambda _, r: bool(r.think and not (r.say or r.call or r.lost)),
    "tool-calls without calls": lambda _, r: r.finish == "tool-calls" and not r.call,
    "a stop with calls": lambda _, r: r.finish == "stop" and bool(r.call),
    "length with calls": lambda _, r: r.finish == "length" and bool(r.call),
    "length with half a call": lambda _, r: r.finish == "length" and bool(r.half_call),
    "a finish that is no word": lambda _, r: r.finish == "",
    "a finish that nobody knows": lambda _, r: r.finish == "weird_reason",
    "fifty calls": lambda _, r: len(arguments(r)) == 50,
    "arguments that are no JSON": lambda _, r: any(str(a).startswith('{"') for a in arguments(r)),
    "arguments that are empty": lambda _, r: "" in arguments(r),
    "arguments that are no object": lambda _, r: "[10]" in arguments(r),
    "a call of no known tool": lambda s, r: (
        s.files is None and any(name not in s.tools for name, _ in calls(r))
    ),
    "ids that are not unique": lambda _, r: len(set(r.ids)) < len([one for one in r.ids if one]),
    "ids that are missing": lambda _, r: "" in r.ids,
    "usage of nothing": lambda _, r: r.usage is not None and r.usage.input == 0,
    "usage over the window": lambda s, r: bool(
        r.usage and r.usage.input > (s.compaction or Compaction()).window
    ),
    "a text that echoes the summary": lambda s, r: any(
        r.say and r.say == one.say and r is not one for one in s.summaries
    ),
    "a summary that fails": summary(lambda r: r.http is not None),
    "a summary that stalls": summary(lambda r: r.stall is not None),
    "a summary that is lost": summary(lambda r: r.lost is not None),
    "a summary that is empty": summary(lambda r: r.finish == "stop" and not r.say),
    "a summary that is cut off": summary(lambda r: r.finish == "length"),
    "a summary that is too long": summary(lambda r: len(r.say) > 200),
}  # fmt: skip


@in_cases(ALPHABET)
def test_each_element_of_the_fault_alphabet_is_in_a_scenario(element: str) -> None:
    assert any(ALPHABET[element](scenario, reply) for scenario, reply in REPLIES)
