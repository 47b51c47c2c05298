"""`simloop import`: files, sessions and folders; what it tells, and what it refuses."""

from pathlib import Path

from claudecode import Lines, with_a_sub_agent
from commandline import Cli
from sessions import FILES

from simloop.scenario.loader import load_scenario


def test_a_session_becomes_a_scenario_and_what_is_left_out_is_counted(cli: Cli) -> None:
    made = Lines().user("Hi").failed({"status": 529}).reply("m1", "Hello.").add("summary")
    cli.file("s.jsonl", made.text)
    result = cli("import", "s.jsonl", "-o", "case.simloop.yaml")
    assert (result.exit_code, result.stdout) == (0, "case.simloop.yaml\n")
    assert result.stderr == (
        "s.jsonl: a Claude Code session: 2 calls of the model, 1 of which failed\n"
        "  left out 1 time: a line of the type summary\n"
    )
    assert cli("run", "case.simloop.yaml").exit_code == 0
    text = Path("case.simloop.yaml").read_text()
    assert "# Left out 1 time: a line of the type summary." in text
    again = cli("import", "s.jsonl", "-o", "case.simloop.yaml")
    assert again.exit_code == 2
    assert "this file exists already" in again.stderr


def test_the_files_of_sub_agents_belong_to_their_session(cli: Cli) -> None:
    made, sub = with_a_sub_agent()
    cli.file("agent-a7.jsonl", sub.text)
    cli.file("s1.jsonl", made.text)
    result = cli("import", "agent-a7.jsonl", "s1.jsonl")
    assert result.exit_code == 0
    assert "  a7:\n    when: {conversation: Find it.}" in result.stdout
    assert result.stderr.startswith("s1.jsonl: a Claude Code session: 6 calls of the model")


def test_each_recording_in_a_folder_is_a_scenario_in_the_same_place(cli: Cli) -> None:
    made, sub = with_a_sub_agent()
    cli.file("logs/shop/s1.jsonl", made.text)
    cli.file("logs/shop/s1/subagents/agent-a7.jsonl", sub.text)
    cli.file("logs/shop/s1/tool-results/t.txt", "no recording")
    cli.file("logs/other.pi.jsonl", (FILES / "pi.jsonl").read_text())
    result = cli("import", "logs", "-o", "made")
    assert result.exit_code == 0
    assert result.stdout.split() == ["made/other.pi.simloop.yaml", "made/shop/s1.simloop.yaml"]
    assert "logs: files that are no recordings: 1\n" in result.stderr
    assert [*load_scenario("made/shop/s1.simloop.yaml").models] == ["a7"]
    checked = cli("check", "made")
    assert checked.exit_code == 0


def test_several_recordings_need_a_folder(cli: Cli) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        cli.file(name, Lines().user("Hi").reply("m1", "Hello.").text)
    result = cli("import", "a.jsonl", "b.jsonl")
    assert result.exit_code == 2
    assert "several recordings need a FOLDER" in result.stderr


def test_a_file_that_is_no_recording_is_an_error_and_the_others_are_made(cli: Cli) -> None:
    cli.file("a.txt", "nothing")
    cli.file("b.jsonl", Lines().user("Hi").reply("m1", "Hello.").text)
    result = cli("import", "a.txt", "b.jsonl", "-o", "made")
    assert (result.exit_code, result.stdout) == (2, "made/b.simloop.yaml\n")
    assert "a.txt: this is no recording that simloop knows" in result.stderr


def test_a_session_without_a_reply_says_what_was_found(cli: Cli) -> None:
    Path("in").mkdir()
    cli.file("in/a.jsonl", Lines().user("Hi").text)
    result = cli("import", "in/a.jsonl")
    assert result.exit_code == 2
    assert result.stderr.startswith("in/a.jsonl: this recording has no call of a model")
    assert "left out 1 time: a prompt without a reply" in result.stderr
