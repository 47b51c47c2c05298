import difflib
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from incases import check_each, in_cases

from simloop.errors import ScenarioError
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.schema import Scenario

KEYS = st.sampled_from(
    [
        *Scenario.model_fields,
        *("say", "call", "http", "status", "times", "when", "role", "lost", "retry_after", "at"),
        *("parameters", "returns", "json_schema", "max_steps", "counters", "outcome", "window"),
    ]
)
SCALARS = st.sampled_from(
    [*("null", "true", "0", "-1", "3", "1.5", ".nan", "5s", "always", "x", '"5s\\n"', '"\\0"')]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda items: f"{{{', '.join(f'{key}: {value}' for key, value in items.items())}}}"
        ),
    ),
    max_leaves=8,
)
FILES = st.dictionaries(KEYS, VALUES, max_size=4).map(
    lambda items: "".join(f"{key}: {value}\n" for key, value in items.items())
)


def refusal_of(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    return caught.value


def read(text: str) -> Scenario | ScenarioError:
    try:
        return parse_scenario(text, "a.yaml")
    except ScenarioError as error:
        return error


@given(FILES)
@example('prompt: x\nabort: {at: "5s\\n"}\n')
@example("prompt: x\ntools: {t: {returns: .nan}}\n")
def test_any_file_of_known_words_gives_a_scenario_or_a_line_with_a_place_for_each_mistake(
    text: str,
) -> None:
    outcome = read(text)
    if isinstance(outcome, ScenarioError):
        mistakes = (outcome, *outcome.others)
        lines = str(outcome).splitlines()
        assert len(lines) == len(mistakes)
        for line, mistake in zip(lines, mistakes, strict=True):
            assert line.startswith(f"a.yaml:{mistake.line}:{mistake.column}: ")


def test_a_scenario_knows_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("prompt: Hi\n")
    assert load_scenario(path).path == str(path)
    assert load_scenario(str(path)) == parse_scenario("prompt: Hi\n", "b.yaml")


def test_all_mistakes_of_a_file_are_reported_in_the_order_of_their_places() -> None:
    error = refusal_of("seed: -1\nprompt: x\nlimits: {max_steps: 0, max_stepz: 1}\n")
    assert [line.split(": ")[:2] for line in str(error).splitlines()] == [
        ["a.yaml:1:7", "seed"],
        ["a.yaml:3:21", "limits.max_steps"],
        ["a.yaml:3:24", "limits.max_stepz"],
    ]


def one_letter_off(key: str) -> str:
    return "x" + key[1:]  # not the last one, which alone tells `loops` from `loop`


@in_cases(sorted(Scenario.model_fields))
def test_every_key_is_recognised_with_one_wrong_letter(key: str) -> None:
    wrong = one_letter_off(key)
    nearest = difflib.get_close_matches(wrong, list(Scenario.model_fields), n=1)
    assert refusal_of(f"prompt: x\n{wrong}: 1\n").hint == f"did you mean `{nearest[0]}`?"
    assert nearest[0] == key


def test_all_unknown_loops_of_a_file_are_reported_at_once() -> None:
    text = "prompt: Hi\nloop: nope\nexpect_on: {nop: {}, pi@9: {}}\nmodel: [{say: Hi.}]\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    mistakes = [caught.value, *caught.value.others]
    assert [(one.key, one.path, one.line) for one in mistakes] == [
        ("loop", "a.yaml", 2),
        ("expect_on.nop", "a.yaml", 3),
        ("expect_on.pi@9", "a.yaml", 3),
    ]


@dataclass(frozen=True)
class Case:
    """A file, the place and the words of its error. Without a leading `prompt:` it gets one."""

    name: str
    text: str
    place: str
    says: str
    hint: str = ""


CASES = [
    # The YAML itself.
    Case("empty", "", "1:1", "the file is empty", "title: ..."),
    Case("only-a-comment", "# nothing yet\n", "1:1", "the file is empty"),
    Case("list-at-the-top", "- prompt: x\n", "1:1", "the file holds no mapping"),
    Case("text-at-the-top", "hello\n", "1:1", "the file holds no mapping"),
    Case("two-documents", "prompt: x\n---\nprompt: y\n", "2:1", "a second document"),
    Case("duplicate-key", "prompt: x\nprompt: y\n", "2:1", "on line 1 already", "keep one"),
    Case("duplicate-key-inside", "limits: {max_steps: 1, max_steps: 2}\n", "2:24", "on line 2"),
    Case("anchor", "title: &a x\n", "2:8", "anchors are not read: &a", "write the value out"),
    Case("alias", "title: *a\n", "2:8", "aliases are not read: *a", "write the value out"),
    Case("merge-key", "limits: {<<: {}}\n", "2:10", "merge keys (<<)", "write the keys out"),
    Case("tag", "title: !!python/name:os.system x\n", "2:8", "tags are not read", "starts with !"),
    Case("tab", "limits:\n\tmax_steps: 3\n", "3:1", "a tab stands", "by spaces"),
    Case("open-bracket", "limits: {max_steps: 3\n", "2:9", "bracket is never closed", "closing"),
    Case("open-quote", 'title: "x\n', "2:8", "quoted text is never closed", "same quote"),
    Case("colon-in-text", "title: This: that\n", "2:12", "': ' cannot stand here", "in quotes"),
    Case("indent", "limits:\n    max_steps: 3\n  max_error_count: 1\n", "4:3", "does not fit"),
    Case("control", "title: \x1b[2J\n", "2:8", "U+001B", "an escape in double quotes"),
    Case("number-as-key", "tools: {7: {}}\n", "2:9", "must be text, not 7", "in quotes"),
    Case("huge-number", f"seed: {2**70}\n", "2:7", "number is too large", "64 bits"),
    # Keys.
    Case("missing-prompt", "title: x\n", "1:1", "the key `prompt` is missing", "add it"),
    Case("misspelt-prompt", "title: x\npromt: y\n", "2:1", "promt: unknown key", "mean `prompt`?"),
    Case("unknown-key", "modle: []\n", "2:1", "modle: unknown key", "did you mean `model`?"),
    Case("far-from-any-key", "zzz: 1\n", "2:1", "zzz: unknown key", "known here: title, about"),
    Case("key-in-limits", "limits: {max_step: 3}\n", "2:10", "limits.max_step: ", "max_steps"),
    Case("key-in-retry", "retry: {initial: 3}\n", "2:9", "retry.initial: ", "`initial_delay`?"),
    Case(
        "key-in-compaction", "compaction: {windows: 9}\n", "2:14", "compaction.windows: ", "window"
    ),
    Case(
        "key-in-http", "model:\n  - http: {status: 429, retry-after: 5s}\n",
        "3:25", "model.0.http.retry-after: unknown key", "did you mean `retry_after`?",
    ),
    Case(
        "key-in-reply", "model:\n  - say: x\n  - text: y\n",
        "4:5", "model.1.text: unknown key", "known here: say, think, call",
    ),
    Case(
        "key-in-summary", "summaries:\n  - sya: x\n",
        "3:5", "summaries.0.sya: unknown key", "did you mean `say`?",
    ),
    Case(
        "key-in-pace", "model:\n  - {say: x, pace: {first: 3s}}\n",
        "3:21", "model.0.pace.first: unknown key", "did you mean `first_part`?",
    ),
    Case(
        "key-in-when", "model:\n  - {say: x, when: {contain: a}}\n",
        "3:21", "model.0.when.contain: unknown key", "did you mean `contains`?",
    ),
    Case(
        "key-in-tool", "tools: {clock: {return: x}}\n",
        "2:17", "tools.clock.return: unknown key", "did you mean `returns`?",
    ),
    Case(
        "key-in-hook", "hooks: [{at: after_llm_call, raise: x}]\n",
        "2:30", "hooks.0.raise: unknown key", "did you mean `raises`?",
    ),
    Case(
        "key-in-counters", "expect: {counters: {errors: 1}}\n",
        "2:21", "expect.counters.errors: unknown key", "known here: error_count, total_steps",
    ),
    Case(
        "several-findings", "seed: -1\nlimits: {max_steps: 0}\nmodle: []\n",
        "2:7", "seed: must be at least 0",
    ),
    # Types.
    Case(
        "python-type", "tools: {t: {parameters: {path: str}}}\n",
        "2:32", "tools.t.parameters.path: must be 'string', 'integer'", "did you mean `string`?",
    ),
    Case("number-for-text", "title: 5\n", "2:8", "title: must be a text", "put it in quotes"),
    Case("nothing-for-text", "prompt:\n", "1:8", "prompt: must be a text"),
    Case("word-for-number", "limits: {max_steps: ten}\n", "2:21", "must be a whole number"),
    Case("quoted-number", 'limits: {max_steps: "10"}\n', "2:21", "a whole number", "write 10"),
    Case(
        "python-number", "compaction: {keep_turns: 3_000}\n",
        "2:26", "compaction.keep_turns: must be a whole number", "write 3000",
    ),
    Case(
        "limit-without-unit", "limits: {max_wall_clock: 300}\n",
        "2:26", "limits.max_wall_clock: 300 has no unit: write '300s' or '300ms'",
    ),
    Case(
        "unit-in-a-limit", "limits: {max_wall_clock_ms: 300}\n",
        "2:10", "limits.max_wall_clock_ms: unknown key", "did you mean `max_wall_clock`?",
    ),
    Case(
        "unit-in-a-tool", "tools: {t: {timeout_ms: 300}}\n",
        "2:13", "tools.t.timeout_ms: unknown key", "did you mean `timeout`?",
    ),
    Case(
        "finer-than-milliseconds", "tools: {t: {timeout: 1us}}\n",
        "2:13", "tools.t.timeout: must be a whole number of milliseconds",
    ),
    Case("fraction", "limits: {max_steps: 1.5}\n", "2:21", "limits.max_steps: must be a whole"),
    Case("truth-for-number", "compaction: {keep_turns: true}\n", "2:26", "must be a whole number"),
    Case("word-for-truth", "model: [{unfinished: yes}]\n", "2:22", "must be true or false"),
    Case(
        "list-for-mapping", "limits: [3]\n",
        "2:9", "limits: must be a mapping (such as {max_steps: ...}; known here: max_steps, ",
    ),
    Case("number-for-mapping", "limits: 3\n", "2:9", "must be a mapping (such as {max_steps: "),
    Case("word-for-mapping", "wire: cr\n", "2:7", "must be a mapping (such as {framing: ...}; "),
    Case("number-for-truth-of-the-wire", "wire: {pings: 1}\n", "2:15", "must be true or false"),
    Case("text-for-number-of-the-wire", "wire: {rate_limit_tokens: '3'}\n", "2:27", "(write 3)"),
    Case("nothing-for-mapping", "limits:\n", "2:8", "limits: must be a mapping"),
    Case("list-for-tools", "tools: []\n", "2:8", "tools: must be a mapping", "{key: value}"),
    Case("mapping-for-list", "model: {say: x}\n", "2:8", "model: must be a list", "[a, b]"),
    Case(
        "text-for-reply", "model:\n  - Hello\n",
        "3:5", "model.0: must be a mapping (such as {say: ...}; known here: say, think, call,",
    ),
    Case(
        "text-for-error", "model: [{error: Overloaded}]\n", "2:17",
        "error: must be a mapping (such as {message: ...}; known here: message, code)",
    ),
    Case(
        "number-for-error", "model: [{error: 503}]\n",
        "2:17", "error: must be a mapping (such as {message: ...}; known here: message, code)",
    ),
    Case(
        "markup-for-error", "model: [{error: '}, x: {'}]\n",
        "2:17", "error: must be a mapping (such as {message: ...}; known here: message, code)",
    ),
    Case(
        "number-for-status", "model: [{http: 429}]\n",
        "2:16", "model.0.http: must be a mapping (such as {status: ...}; known here: status, code,",
    ),
    Case("text-for-abort", "abort: 5s\n", "2:8", "abort: must be a mapping"),
    Case(
        "name-for-call", "model:\n  - call: read_file\n",
        "3:11", "model.0.call: must be a mapping from tools to their arguments, or a list",
        "such as {read_file: {path: README.md}}",
    ),
    Case("names-for-call", "model:\n  - call: [{a: {}}, b]\n", "3:21", "model.0.call.1: must be a"),
    Case(
        "number-for-say", "model: [{say: 5}]\n",
        "2:15", "model.0.say: must be a text or a list of texts", "put it in quotes",
    ),
    Case(
        "long-text", "model: [{say: {repeat: ab, char: 5}}]\n", "2:15",
        "must be a text or a list of texts", '{repeat: "some words ", chars: 33000}',
    ),
    Case("number-in-say", "model: [{say: [a, 5]}]\n", "2:19", "must be a text or a list of texts"),
    Case(
        "number-for-header", "model: [{http: {status: 429, headers: {retry-after-ms: 50}}}]\n",
        "2:56", "headers.retry-after-ms: must be a text", "put it in quotes",
    ),
    # Ranges and words.
    Case("below-minimum", "limits: {max_steps: 0}\n", "2:21", "max_steps: must be at least 1"),
    Case("over-maximum", "retry: {jitter: 2}\n", "2:17", "retry.jitter: must be at most 1"),
    Case("percent", "compaction: {trigger_percent: 101}\n", "2:31", "must be at most 100"),
    Case("status-of-success", "model: [{http: {status: 200}}]\n", "2:17", "must be at least"),
    Case("seed", f"seed: {2**63}\n", "2:7", "seed: must be less than 9223372036854775808"),
    Case("never-true", "expect: {requests: -1}\n", "2:20", "expect.requests: must be at least 0"),
    Case("times", "model: [{say: x, times: 0}]\n", "2:25", "a whole number from 1, or always"),
    Case("times-word", "model: [{say: x, times: ever}]\n", "2:25", "number from 1, or always"),
    Case(
        "american-strategy", "compaction: {strategy: summarize}\n",
        "2:24", "must be 'summarise' or 'drop-oldest'", "did you mean `summarise`?",
    ),
    Case(
        "outcome", "expect: {outcome: complete}\n",
        "2:19", "expect.outcome: must be 'completed', 'max-steps'", "did you mean `completed`?",
    ),
    Case("hook-point", "hooks: [{at: before_tool}]\n", "2:14", "hooks.0.at: ", "before_tool_call"),
    Case("no-hook-point", "hooks: [{block: x}]\n", "2:9", "the key `at` is missing", "add it"),
    Case("role", "model: [{say: x, when: {role: system}}]\n", "2:31", "must be 'user'"),
    Case("place", "model: [{lost: midway}]\n", "2:16", "must be 'before-connect', 'before-"),
    Case(
        "parameter-type", "tools: {clock: {parameters: {zone: str}}}\n",
        "2:36", "tools.clock.parameters.zone: must be 'string'", "did you mean `string`?",
    ),
    # Durations.
    Case("no-unit", "abort: {at: 5}\n", "2:13", "abort.at: 5 has no unit: write '5s' or"),
    Case("long-unit", "expect: {backoffs: [2s, 4sec]}\n", "2:25", "expect.backoffs.1: a duration"),
    Case("negative", "abort: {at: -1s}\n", "2:13", "such as 120ms"),
    Case("line-end", 'abort: {at: "5s\\n"}\n', "2:13", "such as 120ms"),
    Case("too-fine", "abort: {at: 0.5ns}\n", "2:13", "cannot be finer than a nanosecond"),
    Case("too-long", "abort: {at: 99999999h}\n", "2:13", "at most a hundred years"),
    # What contradicts itself, at the key that does.
    Case("two-ends", "model: [{say: x, finish: stop, lost: mid-output}]\n", "2:32", "finish, lost"),
    Case("text-and-status", "model: [{say: x, http: {status: 500}}]\n", "2:18", "in two entries"),
    Case("no-reply", "model: [{}]\n", "2:9", "for an empty one write finish: stop"),
    Case("lost-too-early", "model: [{say: x, lost: before-headers}]\n", "2:18", "has no output"),
    Case("lost-too-late", "model: [{lost: mid-output}]\n", "2:10", "needs some output"),
    Case("ids", "model: [{call: {a: {}}, ids: [x, y]}]\n", "2:25", "2 ids for 1 call"),
    Case("steps", "model: [{http: {status: 500}, steps: 3}]\n", "2:31", "reports steps"),
    Case("interrupted", "model: [{finish: interrupted}]\n", "2:10", "write unfinished: true"),
    Case("infinite-argument", "model: [{call: {a: {b: .inf}}}]\n", "2:10", "no NaN and no"),
    Case("hook-field", "hooks: [{at: after_llm_call, block: x}]\n", "2:30", "no meaning at after"),
    Case(
        "two-schemas", "tools: {a: {parameters: {b: string}, json_schema: {}}}\n",
        "2:38", "give either parameters or json_schema",
    ),
    Case("returns-and-raises", "tools: {a: {returns: x, raises: y}}\n", "2:25", "tools.a.raises: "),
    Case("not-a-number", "tools: {a: {returns: .nan}}\n", "2:13", "tools.a.returns: this is no"),
    Case("no-schema", "tools: {a: {json_schema: {type: strin}}}\n", "2:13", "is not a JSON Schema"),
    Case(
        "remote-schema", "tools: {a: {json_schema: {$ref: 'http://a/b'}}}\n",
        "2:13", "tools.a.json_schema: this is not a JSON Schema", "",
    ),
]  # fmt: skip

_WHOLE = {
    *("empty", "only-a-comment", "list-at-the-top", "text-at-the-top", "missing-prompt"),
    *("two-documents", "duplicate-key", "misspelt-prompt", "nothing-for-text"),
}


def refusal_in(path: Path) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    return caught.value


def written(case: Case, folder: Path) -> Path:
    file = folder / "bad.simloop.yaml"
    file.write_text(case.text if case.name in _WHOLE else f"prompt: x\n{case.text}")
    return file


def name_of(case: Case) -> str:
    return case.name


def test_each_mistake_is_a_line_with_its_place_and_its_fix(tmp_path: Path) -> None:
    def check(case: Case) -> None:
        path = written(case, tmp_path)
        error = refusal_in(path)
        line = str(error)
        assert line.startswith(f"{path}:{case.place}: ")
        assert case.says in line
        assert case.hint in error.hint
        assert len(line.splitlines()) == 1 + len(error.others)
        assert "Input should" not in line  # the words of pydantic

    check_each(check, CASES, name_of)
