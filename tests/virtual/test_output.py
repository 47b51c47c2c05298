"""The standard output and error of programs: kept by their runs, or passed on."""

import asyncio
import contextlib
import io
import logging
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Scenario, simulate
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.virtual.border.output import MOST_CHARS, Output, captured, diverted


class Streams:
    """Two streams in the place of those that pytest puts in when a test is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stdout", self.out)
        monkeypatch.setattr(sys, "stderr", self.err)

    @property
    def texts(self) -> tuple[str, str]:
        return self.out.getvalue(), self.err.getvalue()


def output_of(act: Callable[[], object]) -> Output:
    """Return the output of the run of an agent that calls `act`."""

    async def agent(_: str) -> None:
        act()

    run = Simulation(Plan(Scenario(prompt="Go."), {"loop": agent}))
    run.on_clock(run.converse())
    return run.output


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


async def say() -> None:
    print("said")


def log() -> None:
    logger, handler = logging.getLogger("test_output"), logging.StreamHandler(sys.stdout)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        logger.warning("said")
    finally:
        logger.removeHandler(handler)


WAYS: dict[str, Callable[[], object]] = {
    "print": lambda: print("said"),
    "lines": lambda: sys.stdout.writelines(["sa", "id\n"]),
    "bytes": lambda: sys.stdout.buffer.write(b"said\n"),
    "a log": log,
    "a thread": lambda: in_thread(lambda: print("said")),
    "an event loop in a thread": lambda: in_thread(lambda: asyncio.run(say())),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_keeps_its_output_where_it_is_captured_and_passes_it_on_elsewhere(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    with captured():
        output = output_of(WAYS[way])
    assert (output.text("stdout"), streams.texts) == ("said\n", ("", ""))
    output = output_of(WAYS[way])
    assert (output.text("stdout"), streams.texts) == ("", ("said\n", ""))


def test_each_run_keeps_its_own_output_and_code_outside_of_runs_writes_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = Streams(monkeypatch)
    with captured():
        one, other = output_of(lambda: print("one")), output_of(lambda: print("other"))
        print("outside")
    assert [each.text("stdout") for each in (one, other)] == ["one\n", "other\n"]
    assert streams.texts == ("outside\n", "")


def test_a_stream_that_is_held_writes_for_the_run_of_its_caller() -> None:
    held: list[Any] = []
    with captured():
        output_of(lambda: held.append(sys.stdout))
        output = output_of(lambda: held[0].write("said"))
    assert output.text("stdout") == "said"


def test_a_stream_that_is_held_after_the_runs_writes_to_the_one_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = Streams(monkeypatch)
    held: list[Any] = []
    output_of(lambda: held.append(sys.stdout))
    with contextlib.redirect_stdout(io.StringIO()) as later:
        held[0].write("said")
    assert (later.getvalue(), streams.texts) == ("said", ("", ""))


BREAKS: dict[str, Callable[[], object]] = {
    "closed": lambda: sys.stdout.close(),  # noqa: PLW0108 - that of the run
    "detached": lambda: sys.stdout.detach().close(),  # type: ignore[union-attr]
    "closed by a wrapper that is collected": lambda: io.TextIOWrapper(sys.stdout.buffer),
    "replaced": lambda: setattr(sys, "stdout", io.StringIO()),
    "set to nothing": lambda: setattr(sys, "stdout", None),
    "deleted": lambda: delattr(sys, "stdout"),
}


@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize("case", BREAKS)
def test_a_program_breaks_the_streams_of_its_own_run_only(
    case: str, captures: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    with captured() if captures else contextlib.nullcontext():
        output_of(BREAKS[case])
        output = output_of(lambda: print("the next run"))
        print("outside")
    assert sys.stdout is streams.out
    assert output.text("stdout") + streams.texts[0] == "the next run\noutside\n"


def test_captured_output_is_no_terminal_and_has_no_descriptor() -> None:
    def look() -> None:
        assert not sys.stdout.isatty()
        with pytest.raises(io.UnsupportedOperation):
            sys.stdout.fileno()

    with captured():
        output_of(look)


def test_a_stream_that_passes_text_on_looks_like_the_one_below(
    capfd: pytest.CaptureFixture[str],
) -> None:
    real = sys.stdout

    async def main() -> tuple[object, ...]:
        out = sys.stdout
        return out.fileno(), out.isatty(), out.encoding, out.errors, out.name, out.writable()

    assert simulate(main()) == (
        real.fileno(), real.isatty(), real.encoding, real.errors, real.name, True,
    )  # fmt: skip
    assert capfd.readouterr().out == ""


def test_bytes_are_no_text() -> None:
    def write() -> None:
        data: Any = b"said"
        with pytest.raises(TypeError, match="must be str, not bytes"):
            sys.stdout.write(data)

    with captured():
        output_of(write)


def test_a_debugger_talks_to_the_person_and_not_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch)
    debugger: Any = types.ModuleType("pdb")
    exec("def ask(): print('(Pdb)')", vars(debugger))
    with captured():
        output = output_of(debugger.ask)
    assert (output.text("stdout"), streams.texts) == ("", ("(Pdb)\n", ""))


def test_the_end_of_a_long_output_is_kept_from_the_start_of_a_line() -> None:
    lines = [f"{number:099}" for number in range(300)]
    with captured():
        text = output_of(lambda: print(*lines, sep="\n")).text("stdout")
    first, *kept = text.splitlines()
    assert first == "[...]"
    assert kept == lines[1 - MOST_CHARS // 100 :]


def test_a_module_that_prints_while_it_is_imported_writes_to_stderr_where_output_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = Streams(monkeypatch)
    with captured(), diverted():
        print("imported")
    with diverted():
        print("not captured")
    assert streams.texts == ("not captured\n", "imported\n")
