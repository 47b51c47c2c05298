"""Which commands import a loop of one's own, and what such a loop can end."""

import sys
from pathlib import Path

import msgspec
import pytest
from commandline import Cli

from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import write_trace

GOOD = "prompt: Hi\nmodel: [{say: Hello.}]\n"
LEAVES = {
    "exits": "import sys\nsys.exit(0)\n",
    "interrupts": "raise KeyboardInterrupt\n",
    "gives_up": "raise BaseException('x')\n",
}
MARKS = "from pathlib import Path\nPath('imported').touch()\n"


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {**LEAVES, "marks": MARKS}.items():
        Path(f"{name}.py").write_text(text)
    monkeypatch.delitem(sys.modules, "marks", raising=False)


def trace_of(loop: str, name: str = "a.jsonl") -> str:
    """A trace that says that it is of this loop, as any stranger can write one."""
    trace = run(parse_scenario(GOOD)).trace
    trace.header = msgspec.structs.replace(trace.header, loop=loop)
    write_trace(trace, name)
    return name


READING = [["show"], ["diff"]]


@pytest.mark.parametrize("arguments", [*READING, ["replay"]], ids=" ".join)
def test_nothing_that_a_trace_names_is_imported(cli: Cli, arguments: list[str]) -> None:
    traces = [trace_of("marks:loop"), trace_of("marks:loop", "b.jsonl")]
    result = cli(*arguments, *traces[: 2 if arguments == ["diff"] else 1])
    assert result.exit_code in {0, 2}
    assert "marks" not in sys.modules
    assert not Path("imported").exists()


class TestAReplay:
    def test_of_a_loop_that_does_not_come_with_simloop_says_why_it_needs_the_loop(
        self, cli: Cli
    ) -> None:
        result = cli("replay", trace_of("marks:loop"))
        assert (result.exit_code, result.stdout) == (2, "ERROR   a.jsonl  not replayed\n")
        assert "no module is imported that only the trace names" in result.stderr
        assert result.stderr.endswith("(if you trust it, add: --loop marks:loop)\n")

    def test_imports_the_loop_that_the_user_names(self, cli: Cli) -> None:
        result = cli("replay", "--loop", "marks:loop", trace_of("marks:loop"))
        assert result.exit_code == 2
        assert "the loop `marks:loop` cannot be loaded: AttributeError" in result.stderr
        assert Path("imported").exists()

    def test_runs_a_trace_on_the_loop_that_the_user_names(self, cli: Cli) -> None:
        result = cli("replay", "--loop", "reference", trace_of("marks:loop"))
        assert result.exit_code == 0
        assert "loop differs: recorded marks:loop, replayed reference" in result.stderr


@pytest.mark.parametrize("verb", ["run", "check", "record", "compare"])
@pytest.mark.parametrize("loop", ["sys:exit", *(f"{name}:loop" for name in LEAVES)])
def test_a_loop_that_ends_the_program_is_an_error_of_its_scenario(
    cli: Cli, verb: str, loop: str
) -> None:
    cli.write("folder/a", GOOD)
    cli.write("folder/b", f"loop: {loop}\n{GOOD}")
    cli.write("folder/c", GOOD)
    options = ["-v"] if verb == "check" else []
    if verb == "compare":
        options = ["--loop", "reference", "--loop", "pi"]
    result = cli(verb, *options, "folder")
    if verb == "compare":  # the loops are those of the command line
        assert result.exit_code == 0
        result = cli("compare", "--loop", loop, "folder/a.simloop.yaml")
        assert result.exit_code == 2
    else:
        words = [line.split()[0] for line in result.stdout.splitlines()]
        assert words == ["ok", "ERROR", "ok", "2"]
        assert result.exit_code == 2
    made = f"the agent `{loop}` cannot be made: "  # this one can be loaded, and makes no agent
    wrong = made if loop == "sys:exit" else f"the loop `{loop}` cannot be loaded: "
    assert wrong in " ".join(result.output.split())
    assert "internal error" not in result.stderr
