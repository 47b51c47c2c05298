"""Writes what is generated from the code: `python tests/regenerate.py`. Tests prove it current."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogue import catalogue_text
from click.testing import CliRunner

from simloop.cli import main
from simloop.kernel.diagram import mermaid
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.names import describe
from simloop.loops.opencode_options import OpencodeOptions, Steps
from simloop.prove.proof import Proof, prove
from simloop.runs.loop import machine_for
from simloop.scenario.designs import DESIGNS, LoopOptions, names
from simloop.scenario.jsonschema import schema_text

TOP = Path(__file__).resolve().parent.parent


def printed(*arguments: str, exit_code: int = 0) -> str:
    """What the command line prints, as a block."""
    run = CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments)
    assert run.exit_code == exit_code, run.output
    return f"```\n{run.stdout.strip()}\n```"


ENFORCED = "opencode, `steps: enforce`"


@cache
def proof_of(loop: str) -> Proof:
    """What exploration proves for the documents' default limits."""
    options = OpencodeOptions(steps=Steps.ENFORCE if loop == ENFORCED else Steps.ADVISE)
    design = loop.partition(",")[0]
    machine = machine_for(design, Limits(), LoopOptions(opencode=options))
    return prove(machine, Limits(), loop=design)


def bounds() -> str:
    """The proved bounds of every loop design, one row each."""
    head = ("loop", "states", "ends", "transitions", "model calls", "tool rounds", "backoff")
    loops = [*DESIGNS, ENFORCED, *(name for name in names() if name not in DESIGNS)]
    rows = [head, ("---",) * len(head), *map(_bounds_row, loops)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _bounds_row(loop: str) -> tuple[str, ...]:
    proof = proof_of(loop)
    design, comma, option = loop.partition(",")
    start = f"`{design}`{comma}{option}", f"{proof.states:,}"
    longest = proof.longest
    if longest is None:
        return *start, "not always", "", "", "", ""
    backoff = format_duration(longest.backoff_ns)
    asked = format_duration(longest.backoff_asked_ns)
    more = f", or {asked} if asked" if longest.backoff_asked_ns != longest.backoff_ns else ""
    waits = f"{backoff}{more}" if longest.backoff_ns else "none"
    counts = (longest.transitions, longest.model_calls, longest.tool_rounds)
    return *start, "always", *(f"{count:,}" for count in counts), waits


ROUNDS = (
    ("pi", ""),
    ("opencode", "model-replied tool-calls"),
    ("opencode@1.18.34", "model-replied other"),
    ("opencode@1.18.34", "context-compacted"),
)


def lassos() -> str:
    """Ways round of the designs that may not end, by what is repeated."""
    return "\n".join(_lasso_row(*each) for each in ROUNDS)


def _lasso_row(loop: str, through: str) -> str:
    lasso = prove(machine_for(loop, Limits()), Limits(), through=through).lasso
    assert lasso is not None
    cycle = ", ".join(f"`{describe(step.signal)}`" for step in lasso.cycle)
    return f"- `{loop}`: {cycle}"


FAILING_TEST = "# test_weather.py\n"
"""The first line of the README's first example."""


def failure() -> str:
    """The report that pytest prints of the README's first example, as a block."""
    found = re.search(rf"```python\n({FAILING_TEST}.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    with TemporaryDirectory() as folder:
        Path(folder, "test_weather.py").write_text(found[1], "utf-8")
        command = [sys.executable, "-m", "pytest", "--tb=short", "-p", "no:cacheprovider"]
        # The width of a terminal, and no settings of the pytest that may run this.
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        run = subprocess.run(
            command, cwd=folder, env=kept, capture_output=True, text=True, check=False
        )
    assert run.returncode == 1, run.stdout + run.stderr
    report = re.search(r"^____.*?(?=^simloop: )", run.stdout, re.MULTILINE | re.DOTALL)
    assert report is not None, run.stdout
    lines = (line.rstrip() for line in report[0].splitlines())
    return "\n".join(["```", *lines, "```"])


FAULTY_AGENT = "# support.py\n"
"""The first line of the README's faulty agent."""

_FOUND = "retry-after-respected.simloop.yaml"


def found() -> str:
    """A scenario that `simloop fuzz` writes for the README's faulty agent, as a block."""
    agent = re.search(rf"```python\n({FAULTY_AGENT}.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert agent is not None
    with TemporaryDirectory() as folder:
        Path(folder, "support.py").write_text(agent[1], "utf-8")
        command = ["fuzz", "--loop", "support:agent", "--runs", "100", "--out", "."]
        run = subprocess.run(
            [sys.executable, "-m", "simloop", *command],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 1, run.stdout + run.stderr
        return f"```\n{Path(folder, _FOUND).read_text('utf-8')}```"


README, DOCS = TOP / "README.md", TOP / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
"""The pages for users."""

PROGRAMS = tuple(page for page in PAGES if page.name != "sdks.md")
"""The pages whose examples are whole programs; those of the other one are parts of the recipes."""


def readme_text() -> str:
    """The README with the report of its failing test, and with the output of its commands."""
    return _filled(README, {"failure": failure(), "found": found()})


def scenarios_text() -> str:
    """The page about scenarios with the timeline of the first run."""
    return _filled(DOCS / "scenarios.md", {"quickstart": printed("run", "quickstart")})


def loops_text() -> str:
    """The page about loop designs with the output of `explore`."""
    compared = printed("compare", "retry/rate-limit")
    explored = printed("explore", "--loop", "pi", exit_code=1)
    return _filled(DOCS / "loops.md", {"compare": compared, "explore": explored})


def proofs_text() -> str:
    """The page about proofs with the pictures and the bounds of the loops."""
    pictures = {
        loop: f"```mermaid\n{mermaid(machine_for(loop, Limits()).legal)}\n```" for loop in DESIGNS
    }
    parts = {**pictures, "bounds": bounds(), "lassos": lassos()}
    return _filled(DOCS / "proofs.md", parts)


def replayer_picture() -> str:
    """The picture of the replayer in the README."""
    sys.path.append(str(TOP / "tests" / "support"))  # pytest has it there; a script has not
    from screens import replayer_picture as picture  # noqa: PLC0415 - it imports Textual

    return picture()


GENERATED: Mapping[Path, Callable[[], str]] = {
    README: readme_text,
    DOCS / "scenarios.md": scenarios_text,
    DOCS / "loops.md": loops_text,
    DOCS / "proofs.md": proofs_text,
    TOP / "scenarios" / "README.md": catalogue_text,
    TOP / "scenarios" / "schema.json": schema_text,
    DOCS / "replayer.svg": replayer_picture,
}
"""Every generated file, with what makes the text that it should hold."""


def _filled(path: Path, parts: Mapping[str, str]) -> str:
    """The file with each part between the marks of its name."""
    text = path.read_text("utf-8")
    for name, block in parts.items():
        begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"{path.name} has no mark {begin.strip()}"
        text = f"{before}{begin}{block}\n{end}{after}"
    return text


if __name__ == "__main__":
    for path, text in {path: make() for path, make in GENERATED.items()}.items():
        path.write_text(text, "utf-8")
