"""Snapshots of runs in somebody's project: recorded, compared, and not deleted by accident."""

from pathlib import Path

import pytest
import syrupy
from click.testing import CliRunner
from filesizes import file_size_limit
from syrupy.data import Snapshot, SnapshotCollection

from simloop import Reply, Scenario, ScenarioError, parse_scenario, run, write_trace
from simloop.cli import main
from simloop.snapshots import TraceSnapshotExtension
from simloop.trace.codec import encode, read_trace

CONFTEST = """
    import pytest
    from simloop.snapshots import TraceSnapshotExtension

    @pytest.fixture
    def snapshot(snapshot):
        return snapshot.use_extension(TraceSnapshotExtension)
"""
GREETING = "prompt: x\nmodel: [{http: {status: 429}}, {say: Hello there.}]\n"
TESTS = """
    from simloop import load_scenario, run

    def test_first(snapshot):
        assert run(load_scenario("greeting.simloop.yaml")) == snapshot

    def test_last(snapshot):
        assert run(load_scenario("greeting.simloop.yaml")) == snapshot
"""
OTHER = """
    from simloop import load_scenario, run

    def test_other(snapshot):
        assert run(load_scenario("greeting.simloop.yaml")).trace == snapshot
"""
RECORDED = [
    "test_a/test_first.trace.jsonl",
    "test_a/test_last.trace.jsonl",
    "test_b/test_other.trace.jsonl",
]
UPDATE = "--snapshot-update"


@pytest.fixture
def project(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Three tests in two files, with their snapshots."""
    monkeypatch.setenv("PYTEST_PLUGINS", "syrupy")
    # Sessions in this process replace what syrupy keeps of ours.
    monkeypatch.setattr(syrupy, "_syrupy", syrupy._syrupy)
    project.makefile(".simloop.yaml", greeting=GREETING)
    project.makeconftest(CONFTEST)
    project.makepyfile(test_a=TESTS, test_b=OTHER)
    trace = run(parse_scenario(GREETING)).trace
    for name in RECORDED:
        path = project.path / "__snapshots__" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_trace(trace, path)
    return project


def kept(project: pytest.Pytester) -> list[str]:
    folder = project.path / "__snapshots__"
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def edit(project: pytest.Pytester, text: str) -> None:
    (project.path / "greeting.simloop.yaml").write_text(text)


def difference(result: pytest.RunResult) -> list[str]:
    """What the only failed assertion explains, without pytest's margin."""
    margin = "E         "
    return [line.removeprefix(margin) for line in result.outlines if line.startswith(margin)]


@pytest.mark.slow
def test_an_update_records_canonical_trace_files(project: pytest.Pytester) -> None:
    for name in RECORDED:
        (project.path / "__snapshots__" / name).unlink()
    project.runpytest_inprocess().assert_outcomes(passed=1, failed=3)
    project.runpytest_inprocess(UPDATE).assert_outcomes(passed=4)
    project.runpytest_inprocess().assert_outcomes(passed=4)
    assert kept(project) == RECORDED
    path = project.path / "__snapshots__" / RECORDED[0]
    trace = read_trace(path)
    assert trace.footer is not None
    assert encode(trace) == path.read_bytes()


def test_an_edited_reply_fails_with_the_first_entry_that_differs(
    project: pytest.Pytester,
) -> None:
    edit(project, GREETING.replace("Hello", "Goodbye"))
    result = project.runpytest_inprocess("test_b.py")
    result.assert_outcomes(failed=1)
    assert difference(result) == [
        "the first difference is in entry 11, text-delta.text:",
        "    2.000s  -> measuring on backoff-elapsed (errors 1, steps 0, compa...",
        "    2.000s  -> calling-model on context-measured (errors 1, steps 0, ...",
        "    2.000s  request #2: 1 message, about 5 tokens, nothing new",
        "  - snapshot  Hello",
        "  + this run  Goodbye",
        "replay the snapshot: simloop replay __snapshots__/test_b/test_other.trace.jsonl",
    ]


def test_a_difference_between_long_texts_is_not_cut_before_its_command(
    project: pytest.Pytester,
) -> None:
    tools = 'tools: {read: {returns: "%s"}}\nprompt: x\nmodel: [{call: {read: {}}}, {say: Done.}]\n'
    trace = run(parse_scenario(tools % ("word " * 200))).trace
    write_trace(trace, project.path / "__snapshots__" / RECORDED[2])
    edit(project, tools % ("other " * 200))
    result = project.runpytest_inprocess("test_b.py")
    assert difference(result)[0].endswith("tool-result.text:")
    assert difference(result)[-1].startswith("replay the snapshot: simloop replay __snapshots__/")


def test_a_run_with_python_code_is_shown_because_it_cannot_be_replayed() -> None:
    def look() -> str:
        return "nothing"

    extension = TraceSnapshotExtension()
    one, two = (
        extension.serialize(
            run(
                Scenario(prompt="x", model=[Reply(call={"look": {}}), Reply(say=last)]),
                tools=[look],
            )
        )
        for last in ("y", "z")
    )
    assert list(extension.diff_lines(one, two))[-1].startswith("look at the snapshot: simloop show")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            b"nonsense",
            "*test_other.trace.jsonl:1: this is not a simloop trace (record it again: pytest *)",
        ),
        (
            b'{"format":"simloop-trace","version":2}\n',
            "*test_other.trace.jsonl:1: * format of version 2, * (record it again: pytest *)",
        ),
        (b"", "there is no __snapshots__/test_b/test_other.trace.jsonl; record it with: pytest *"),
        (None, "there is no __snapshots__/test_b/test_other.trace.jsonl; record it with: pytest *"),
    ],
    ids=["no trace", "version 2", "empty", "none"],
)
def test_a_snapshot_that_cannot_be_read_says_why(
    project: pytest.Pytester, damage: bytes | None, told: str
) -> None:
    path = project.path / "__snapshots__" / "test_b" / "test_other.trace.jsonl"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    project.runpytest_inprocess("test_b.py").stdout.fnmatch_lines([f"E   *{told}"])


def test_what_is_no_run_is_refused_in_one_line() -> None:
    with pytest.raises(TypeError, match="holds a Result or a LoopTrace, not 'text'"):
        TraceSnapshotExtension().serialize("text")


# ------------------------------------------------------------------ the snapshot of a test
BOT = """
    import asyncio
    from simloop import ModelCallFailed, UserMessage

    async def bot(provider, question):
        try:
            return (await provider.model.reply([UserMessage(question)])).message.text
        except ModelCallFailed:
            await asyncio.sleep(7)
        return (await provider.model.reply([UserMessage(question)])).message.text
"""
TESTS_OF_BOT = """
    import pytest
    from bot import bot
    from simloop import Http, Reply

    @pytest.mark.simloop
    async def test_it_is_told(provider, sim, snapshot):
        provider.script(Reply(http=Http(status=429)), Reply(say="It is five o'clock."))
        await bot(provider, "What time is it?")
        assert sim.trace == snapshot
"""


@pytest.fixture
def bot(project: pytest.Pytester) -> Path:
    """A project with the snapshot of an async test of a bot: the file of the snapshot."""
    project.makepyfile(bot=BOT, test_bot=TESTS_OF_BOT)
    project.runpytest_inprocess(UPDATE, "test_bot.py").assert_outcomes(passed=1)
    return project.path / "__snapshots__" / "test_bot" / "test_it_is_told.trace.jsonl"


@pytest.mark.slow
def test_a_snapshot_holds_after_the_code_has_moved_to_another_line(
    project: pytest.Pytester, bot: Path
) -> None:
    moved = f"# A comment.\n\n{(project.path / 'bot.py').read_text()}"
    (project.path / "bot.py").write_text(moved)
    project.runpytest_inprocess("test_bot.py").assert_outcomes(passed=1)
    assert b'"place":"bot.py in bot"' in bot.read_bytes()


def test_a_snapshot_that_a_test_takes_of_its_own_run_is_not_called_truncated(bot: Path) -> None:
    shown = CliRunner().invoke(main, ["show", str(bot)])
    assert (shown.exit_code, read_trace(bot).truncated) == (0, "")
    assert (
        shown.stderr == f"{bot}: the trace has no end: its run had not ended when it was written\n"
    )


@pytest.mark.slow
def test_the_message_that_differs_is_named_with_its_words(
    project: pytest.Pytester, bot: Path
) -> None:
    tests = project.path / "test_bot.py"
    tests.write_text(tests.read_text().replace("What time", "Which hour"))
    assert bot.exists()
    assert difference(project.runpytest_inprocess("test_bot.py")) == [
        "the first difference is in entry 1, request #1, messages[0] (user):",
        "    0.000s  prompt test_bot:test_it_is_told",
        "  - snapshot  What time is it?",
        "  + this run  Which hour is it?",
        "look at the snapshot: simloop show __snapshots__/test_bot/test_it_is_told.trace.jsonl",
    ]


def test_an_update_that_fails_half_way_leaves_the_recorded_trace_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.trace.jsonl"
    path.write_bytes(b"old")
    collection = SnapshotCollection(location=str(path))
    collection.add(Snapshot(name="a", data=encode(run(parse_scenario(GREETING)).trace)))
    refused = pytest.raises(ScenarioError, match="cannot be written: File too large")
    with file_size_limit(1_000), refused:
        TraceSnapshotExtension.write_snapshot_collection(snapshot_collection=collection)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.trace.jsonl"]
