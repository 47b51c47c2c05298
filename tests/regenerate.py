"""Writes what is generated from the code: `python tests/regenerate.py`. Tests prove it current."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from catalogue import catalogue_text
from click.testing import CliRunner

from simloop.check.proof import Proof, prove
from simloop.cli import main
from simloop.kernel.diagram import mermaid
from simloop.kernel.limits import Limits
from simloop.kernel.names import told
from simloop.loops.opencode_options import OpencodeOptions, Steps
from simloop.scenario.durations import format_duration
from simloop.scenario.jsonschema import schema_text
from simloop.scenario.loops import DESIGNS, LoopOptions, machine_for, names
from simloop.sim.gaps import GAPS

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
    ("opencode@1.2.27", "model-replied other"),
    ("opencode@1.2.27", "context-compacted"),
    ("opencode@1.1.11", "backoff-elapsed"),
    ("opencode@1.18.33", "model-replied other"),
    ("opencode@1.18.33", "context-compacted"),
)


def lassos() -> str:
    """Ways round of the designs that may not end, by what is repeated."""
    return "\n".join(_lasso_row(*each) for each in ROUNDS)


def _lasso_row(loop: str, through: str) -> str:
    lasso = prove(machine_for(loop, Limits()), Limits(), through=through).lasso
    assert lasso is not None
    cycle = ", ".join(f"`{told(step.signal)}`" for step in lasso.cycle)
    return f"- `{loop}`: {cycle}"


def gaps() -> str:
    """What the border of a simulation cannot cover, one row each."""
    rows = ["| gap | what stays real | what to do |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| `{gap.name}` | {gap.real} | {gap.instead} |" for gap in GAPS)])


README, ARCHITECTURE = TOP / "README.md", TOP / "simloop" / "ARCHITECTURE.md"


def readme_text() -> str:
    """The README with what its commands print."""
    parts = {
        "quickstart": printed("run", "quickstart"),
        "compare": printed("compare", "retry/rate-limit"),
        "explore": printed("explore", "--loop", "pi", exit_code=1),
    }
    return _filled(README, parts)


def architecture_text() -> str:
    """The overview with the pictures and the proofs of the loops."""
    pictures = {
        loop: f"```mermaid\n{mermaid(machine_for(loop, Limits()).legal)}\n```" for loop in DESIGNS
    }
    parts = {**pictures, "bounds": bounds(), "lassos": lassos(), "gaps": gaps()}
    return _filled(ARCHITECTURE, parts)


GENERATED: Mapping[Path, Callable[[], str]] = {
    README: readme_text,
    ARCHITECTURE: architecture_text,
    TOP / "scenarios" / "README.md": catalogue_text,
    TOP / "scenarios" / "schema.json": schema_text,
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
