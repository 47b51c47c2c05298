"""Sessions of pi: their tree, their ends, and the runs on the loop of pi that they become."""

from typing import Any

from sessions import FILES, at, conversation, lines, played, read, scenario

from simloop.scenario.writing import content

HEAD = {"type": "session", "version": 3, "id": "s", "timestamp": at(0), "cwd": "/shop"}
START_MS = 1_772_622_000_000


class Entries:
    """The entries of a session, each a child of the one before."""

    def __init__(self, *, has_ids: bool = True) -> None:
        self.all: list[dict[str, Any]] = [HEAD]
        self._has_ids = has_ids

    def add(self, kind: str, seconds: float, parent: int = 0, **keys: Any) -> "Entries":
        number = len(self.all)
        tree = {"id": f"e{number}", "parentId": f"e{parent or number - 1}"} if self._has_ids else {}
        self.all.append({"type": kind, **tree, "timestamp": at(seconds), **keys})
        return self

    def say(
        self, seconds: float, role: str, content: Any, parent: int = 0, **keys: Any
    ) -> "Entries":
        began = START_MS + int(keys.pop("began", seconds) * 1000)
        message = {"role": role, "content": content, "timestamp": began, **keys}
        return self.add("message", seconds, parent, message=message)

    def user(self, seconds: float, text: str, parent: int = 0) -> "Entries":
        return self.say(seconds, "user", [{"type": "text", "text": text}], parent)

    def reply(self, seconds: float, *blocks: Any, stop: str = "stop", **keys: Any) -> "Entries":
        made = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        usage = {"input": 5, "output": 2, "cacheRead": 0}
        return self.say(seconds, "assistant", made, stopReason=stop, usage=usage, **keys)

    def result(self, seconds: float, call_id: str, text: str, *, failed: bool = False) -> "Entries":
        made = [{"type": "text", "text": text}]
        return self.say(seconds, "toolResult", made, toolCallId=call_id, isError=failed)

    @property
    def text(self) -> str:
        return lines(*self.all)


def call(name: str, call_id: str, **given: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": given}


def test_a_session_of_the_program_runs_on_its_loop_as_it_went() -> None:
    recording = read((FILES / "pi.jsonl").read_text())
    found = scenario(recording)
    assert found.loop == "pi@0.87.1"
    assert conversation(played(recording)) == [
        "user: Look around.",
        'assistant: I look.  bash {"command":"echo one"} bash {"command":"echo two; exit 3"}',
        "tool: one\n",
        "tool: two\n\n\nCommand exited with code 3",
        'assistant:  read {"filePath":"/nofile.txt","path":"nofile.txt"}',
        "tool: ENOENT: no such file or directory, access '/home/ada/shop/nofile.txt'",
        "assistant: All done. ",
        "user: And again?",
        "assistant: It is done again. ",
    ]


def test_a_session_without_a_connection_gives_up_twice_on_the_reference_loop() -> None:
    recording = read((FILES / "pi-lost.jsonl").read_text())
    found = content(scenario(recording))
    assert [one["lost"] for one in found["model"]] == ["before-headers"] * 8
    assert "loop" not in found
    assert len(played(recording).requests) == 8


def test_each_reply_took_from_its_own_time_to_that_of_its_entry() -> None:
    made = (
        Entries().user(1, "Hi").reply(9, {"type": "thinking", "thinking": "Hm."}, "Hello.", began=4)
    )
    found = content(scenario(read(made.text)))
    assert found["model"] == [{
        "say": "Hello.", "think": "Hm.", "pace": {"first_part": "5s"},
        "usage": {"input": 5, "output": 2},
    }]  # fmt: skip


def test_aborted_replies_end_their_runs_as_often_as_they_come() -> None:
    made = Entries(has_ids=False).user(1, "One").reply(2, "Beg", stop="aborted").user(3, "Two")
    made.reply(4, call("ls", "c1"), stop="toolUse").result(5, "c1", "a")
    made.reply(6, stop="aborted", errorMessage="Request was aborted").user(7, "Three").reply(
        8, "Yes."
    )
    result = played(read(made.text))
    assert [each.name for each in result.outcomes] == ["ABORTED", "ABORTED", "COMPLETED"]
    assert result.text == "Yes."


def test_a_failure_that_was_tried_again_has_the_status_in_its_words() -> None:
    made = Entries().user(1, "Hi").reply(2, stop="error", errorMessage='529 {"type":"error"}')
    made.reply(4, stop="error", errorMessage="It broke.").user(9, "Again").reply(11, "Hello.")
    recording = read(made.text)
    first, second, _ = content(scenario(recording))["model"]
    assert first["http"] == {"status": 529, "body": {"type": "error"}}
    assert second["error"] == {"message": "It broke."}
    assert scenario(recording).loop == "reference"
    assert played(recording).text == "Hello."


def test_the_newest_branch_is_the_conversation_and_the_rest_is_counted() -> None:
    made = Entries().user(1, "Old").reply(2, "Old.").add("model_change", 2).user(3, "New", parent=2)
    made.reply(4, "New.").say(5, "bashExecution", "", command="ls").add("label", 5, targetId="e1")
    recording = read(made.text + "{}\n7\n")
    assert conversation(played(recording)) == [
        "user: Old", "assistant: Old.", "user: New", "assistant: New."
    ]  # fmt: skip
    assert recording.skipped == {
        "an entry of another branch": 1, "a message of the role bashExecution": 1,
        "an entry of the type label": 1, "an entry of the type (none)": 1,
        "a line that is no JSON object": 1,
    }  # fmt: skip


def test_a_compaction_needs_the_reference_loop() -> None:
    made = Entries().user(1, "Look. " * 400).reply(2, call("ls", "c1"), stop="toolUse")
    made.result(3, "c1", "much " * 400).add("compaction", 4, summary="They look.", tokensBefore=9)
    recording = read(made.reply(5, "Done.").text)
    assert scenario(recording).loop == "reference"
    assert played(recording).text == "Done."
