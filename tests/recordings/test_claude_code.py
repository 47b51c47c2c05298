"""Sessions of Claude Code: their tree, their attempts, and the runs that they become."""

from typing import Any

import pytest
from claudecode import Lines, call, with_a_sub_agent
from sessions import at, conversation, lines, played, read, scenario

from simloop.errors import CannotExpress
from simloop.messages import UserMessage
from simloop.runs.run import run
from simloop.scenario.writing import content
from simloop.world.world import World


def test_a_reply_that_is_spread_over_lines_is_one_reply() -> None:
    made = Lines().user("Look.").reply("m1", {"type": "thinking", "thinking": "Hm."})
    made.reply("m1", "I look.").reply("m1", call("Bash", "t1", command="ls"), stop="tool_use")
    made.result("t1", [{"type": "text", "text": "README.md"}]).reply("m2", "Done.", stop="end_turn")
    recording = read(made.text)
    assert conversation(played(recording)) == [
        "user: Look.", 'assistant: I look. Bash {"command":"ls"}', "tool: README.md",
        "assistant: Done.",
    ]  # fmt: skip
    first = content(scenario(recording))["model"][0]
    assert (first["think"], first["usage"], first["ids"]) == (
        "Hm.",
        {"input": 3, "output": 3},
        ["t1"],
    )
    assert not recording.skipped


def test_the_times_of_a_session_are_those_of_its_run() -> None:
    made = Lines().user("Look.").reply("m1", call("Bash", "t1", command="ls")).result("t1", "a")
    made.reply("m2", "Done.").user("And?", timestamp=at(60)).reply("m3", "No.", timestamp=at(70))
    made.user("More?", timestamp=at(90)).reply("m4", call("Bash", "t2"), timestamp=at(90.5))
    made.result("t2", "b", timestamp=at(99), toolUseResult={"durationMs": 7_000})
    made.reply("m5", "Bye.", timestamp=at(101))
    found = content(scenario(read(made.text)))
    assert [one["pace"]["first_part"] for one in found["model"]] == [
        "2s",
        "2s",
        "10s",
        "500ms",
        "2s",
    ]
    assert found["then"] == [{"say": "And?", "after": "52s"}, {"say": "More?", "after": "20s"}]
    assert [one["takes"] for one in found["tools"]["Bash"]["answers"]] == ["2s", "7s"]
    assert played(read(made.text)).elapsed_ns == (101 - 1.5 - 2) * 10**9


class TestAFailedAttempt:
    def test_has_its_status_and_body_and_the_wait_after_it(self) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        headers = {"Retry-After": "3", "x-request-id": "r1"}
        made = Lines().user("Hi").failed({"status": 529, "error": body, "headers": headers}, 750.2)
        made.failed({"status": 500, "message": "broken"}, 1500).reply("m1", "Hello.")
        recording = read(made.text)
        found = content(scenario(recording))
        assert [one.get("http") for one in found["model"]] == [
            {"status": 529, "headers": {"retry-after": "3"}, "body": body},
            {"status": 500, "message": "broken"},
            None,
        ]
        assert found["retry"] == {"initial_delay": "750ms", "max_delay": "1.5s"}
        assert found["model"][2]["pace"] == {"first_part": "500ms"}
        assert conversation(played(recording)) == ["user: Hi", "assistant: Hello."]

    @pytest.mark.parametrize(
        ("error", "place"),
        [
            ({"cause": {"code": "ECONNRESET"}}, "before-headers"),
            ({"cause": {"code": "FailedToOpenSocket"}}, "before-connect"),
            ({}, "before-headers"),
            ("no object", "before-headers"),
        ],
    )
    def test_without_a_status_is_a_lost_connection(self, error: Any, place: str) -> None:
        recording = read(Lines().user("Hi").failed(error).reply("m1", "Hello.").text)
        assert content(scenario(recording))["model"][0]["lost"] == place
        assert played(recording).text == "Hello."

    def test_may_hang_on_the_tree_as_a_leaf(self) -> None:
        made = Lines().user("Hi").failed({"status": 529}).reply("m1", "Hello.", after="s1-1")
        recording = read(made.text)
        assert content(scenario(recording))["model"][0]["http"] == {"status": 529}
        assert not recording.skipped


class TestTheLastFailure:
    @pytest.mark.parametrize(
        ("keys", "text", "reply"),
        [
            ({"apiErrorStatus": 429}, "Over.", {"http": {"status": 429, "message": "Over."}}),
            ({}, 'API Error: 529 {"a":1}', {"http": {"status": 529, "body": {"a": 1}}}),
            ({}, "API Error: Connection error.", {"lost": "before-headers"}),
            ({"apiErrorStatus": 7}, "Too long", {"error": {"message": "Too long"}}),
        ],
    )  # fmt: skip
    def test_is_told_in_each_form(self, keys: Any, text: str, reply: Any) -> None:
        found = content(scenario(read(Lines().user("Hi").gave_up(text, **keys).text)))
        assert found["model"] == [{**reply, "pace": {"first_part": "2s"}}]

    def test_ends_its_run_and_the_next_prompt_goes_on(self) -> None:
        made = Lines().user("Hi").failed({"status": 529}).failed({"status": 529}, 1000)
        made.gave_up("API Error: 529 Overloaded").user("Again").reply("m1", "Hello.")
        result = played(read(made.text))
        assert [each.name for each in result.outcomes] == ["TOO_MANY_ERRORS", "COMPLETED"]
        assert result.text == "Hello."

    def test_of_fewer_attempts_than_others_ends_its_run_too(self) -> None:
        made = Lines().user("Hi").gave_up("You've hit your limit", apiErrorStatus=429)
        made.user("Again")
        for status in (500, 502, 503):
            made.failed({"status": status})
        made.reply("m1", "Hello.").user("Bye").reply("m2", "Bye.")
        result = played(read(made.text))
        assert [each.name for each in result.outcomes] == ["ABORTED", "COMPLETED", "COMPLETED"]
        assert [one for one in conversation(result) if one.startswith("assistant")] == [
            "assistant: Hello.", "assistant: Bye."
        ]  # fmt: skip


class TestTheTree:
    def test_results_of_parallel_calls_hang_on_their_own_calls(self) -> None:
        made = Lines().user("Look.").reply("m1", call("Bash", "t1", command="a"))
        made.reply("m1", call("Bash", "t2", command="b")).result("t2", "second", after="s1-3")
        made.result("t1", "first", failed=True, after="s1-2").reply("m2", "Done.", after="s1-4")
        recording = read(made.text)
        assert conversation(played(recording))[1:] == [
            'assistant:  Bash {"command":"a"} Bash {"command":"b"}', "tool: first", "tool: second",
            "assistant: Done.",
        ]  # fmt: skip
        assert not recording.skipped

    def test_the_newest_branch_is_the_conversation(self) -> None:
        made = Lines().user("Old").reply("m1", "Old.").user("New", after="none").reply("m2", "New.")
        made.all[2]["parentUuid"] = None
        made.user("Newer", after="s1-2").reply("m3", "Newer.")
        recording = read(made.text)
        assert conversation(played(recording)) == [
            "user: Old", "assistant: Old.", "user: Newer", "assistant: Newer."
        ]  # fmt: skip
        assert recording.skipped == {"a line of another branch": 2}

    def test_a_line_that_is_there_twice_counts_once(self) -> None:
        made = Lines().user("Hi").reply("m1", "Hello.")
        recording = read(made.text + made.text)
        assert conversation(played(recording)) == ["user: Hi", "assistant: Hello."]
        assert recording.skipped == {"a line that is there twice": 2}

    def test_lines_without_parents_and_ids_follow_one_another(self) -> None:
        made = Lines().user("Hi").reply("", "One", call("Bash", "t1")).result("t1", "a")
        made.reply("", "Two.")
        for line in made.all:
            del line["uuid"], line["parentUuid"]
        assert conversation(played(read(made.text)))[-1] == "assistant: Two."


def test_a_compaction_comes_where_it_came() -> None:
    made = Lines().user("Look. " * 200)
    for number in range(3):
        made.reply(f"m{number}", call("Bash", f"t{number}")).result(f"t{number}", "much " * 300)
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "s1-7"}
    made.add("system", parentUuid=None, **boundary, compactMetadata={"trigger": "auto"})
    made.user("They looked thrice.", isCompactSummary=True).reply("m8", call("Bash", "t8"))
    made.result("t8", "little").reply("m9", "Done.")
    recording = read(made.text)
    result = played(recording)
    sizes = [len(each.messages) for each in result.requests if each.purpose == "main"]
    assert sizes == [1, 3, 5, 4, 6]
    assert "summary: They looked thrice." in conversation(result)
    assert recording.skipped == {"a line of the program of the type compact_boundary": 1}


def test_a_long_session_is_not_compacted_where_it_was_not() -> None:
    made = Lines().user("Look.")
    for number in range(120):
        made.reply(f"m{number}", call("Bash", f"t{number}")).result(f"t{number}", "much " * 1000)
    made.reply("m", "Done.", stop="max_tokens")
    result = played(read(made.text))
    assert (result.outcome, len(result.requests)) == ("context-limit", 121)


def test_a_reply_of_reasoning_alone_ends_its_run() -> None:
    made = Lines().user("Hi").reply("m1", {"type": "thinking", "thinking": "Hm."}).user("Well?")
    assert played(read(made.reply("m2", "Hello.").text)).text == "Hello."


def test_an_attempt_that_a_bundled_loop_would_not_repeat_is_left_out() -> None:
    recording = read(Lines().user("Hi").failed({"status": 401}).reply("m1", "Hello.").text)
    assert conversation(played(recording)) == ["user: Hi", "assistant: Hello."]
    assert recording.skipped == {"a failed attempt that a bundled loop would not repeat": 1}


def test_a_run_that_is_interrupted_ends_and_the_next_prompt_goes_on() -> None:
    made = (
        Lines().user("Look.").reply("m1", call("Bash", "t1")).result("t1", "rejected", failed=True)
    )
    made.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    made.user("Look elsewhere.").reply("m2", "Done.")
    recording = read(made.text)
    result = played(recording)
    assert [each.name for each in result.outcomes] == ["ABORTED", "COMPLETED"]
    assert conversation(result)[-2:] == ["user: Look elsewhere.", "assistant: Done."]
    (reason,) = recording.skipped
    assert reason == "the end of a run amid its calls: a reply fails there as `aborted`"


def test_what_the_program_writes_is_no_prompt_and_is_counted() -> None:
    made = Lines().add("file-history-snapshot").user("<command-name>/cost</command-name>")
    made.user("Caveat: The messages below were generated.").user("Hidden", isMeta=True)
    made.user("Unanswered").user(["Hi", {"type": "image", "source": {}}])
    made.reply("m0", "No response requested.", model="x").all[-1]["message"]["model"] = (
        "<synthetic>"
    )
    made.reply("m1", "Hello.").user("amid", isMeta=True).reply("m2", "Unasked.")
    recording = read(made.text + '"massive error"\n[1]\nno JSON\n{"silly": "this"}\n')
    assert conversation(played(recording)) == [
        "user: Hi\n[image]", "assistant: Hello.", "user: amid", "assistant: Unasked."
    ]  # fmt: skip
    assert recording.skipped == {
        "a line of the type file-history-snapshot": 1,
        "a message of the user that the program has written": 4,
        "a prompt without a reply": 1,
        "a reply that the program has made up, or that says nothing": 1,
        "a line that is no JSON object": 3,
        "a line of the type (none)": 1,
    }


@pytest.mark.parametrize("has_id", [True, False], ids=["with an id", "without one"])
def test_a_sub_agent_is_a_party(has_id: bool) -> None:  # noqa: FBT001
    made, sub = with_a_sub_agent()
    for line in sub.all:
        line |= {} if has_id else {"agentId": None}  # noqa: PLW2901
    recording = read(lines(*made.all[:2], *sub.all, *made.all[2:]))
    found = scenario(recording)
    result = run(found).check()
    assert conversation(result)[1:3] == [
        'assistant:  Task {"prompt":"Find it."}',
        "tool: It is here.",
    ]
    (party,) = found.models.values()
    assert len(party.replies) == len(result.unused_places) == 3
    assert conversation(result)[-2] == "tool: own"
    reason = "a result of Bash for a sub-agent, because the main agent calls it too"
    assert recording.skipped == {reason: 1}


async def own_agent(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


def test_an_agent_of_ones_own_is_not_refused_for_what_a_bundled_loop_needs() -> None:
    made = Lines().user("Hi").failed({"status": 529}).gave_up("Overloaded", apiErrorStatus=529)
    made.user("Hi again").reply("m1", "Hello.")
    found = scenario(read(made.text))
    assert found.limits.max_error_count == 2
    assert run(found).text == "Hello."
    reached = found.model_copy(update={"model": found.model[2:], "then": []})
    assert run(reached, loop=own_agent).text == "Hello."
    with pytest.raises(CannotExpress, match="no limits of simloop"):
        run(reached.model_copy(update={"recorded": ""}), loop=own_agent)
