"""Writes what is generated from the code: `python tests/regenerate.py`. Tests prove it current."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogue import catalogue_text
from click.testing import CliRunner
from forks import Done, done
from mermaid import mermaid
from schematext import generated_schema

from simloop.cli import main
from simloop.cli.doctor import ANSWERED
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.names import describe
from simloop.loops.opencode import OpencodeOptions
from simloop.prove.proof import Proof, prove
from simloop.runs.loop import machine_for
from simloop.scenario.designs import DESIGNS, LoopOptions, names
from simloop.wire.formats import FORMATS

TOP = Path(__file__).resolve().parent.parent
PINNED = TOP / "tests" / "wire" / "environments"


def printed(*arguments: str, exit_code: int = 0) -> str:
    """What the command line prints, as a block."""
    run = CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments)
    assert run.exit_code == exit_code, run.output
    return f"```\n{run.stdout.strip()}\n```"


ENFORCED = "opencode, `steps: enforce`"


@cache
def proof_of(loop: str) -> Proof:
    """What exploration proves for the documents' default limits."""
    options = OpencodeOptions(steps="enforce" if loop == ENFORCED else "advise")
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


def lassos() -> str:
    """A shortest way round of each design that may not end, by what is repeated."""
    return "\n".join(map(_lasso_row, ("pi", "opencode", "opencode@1.18.34")))


def _lasso_row(loop: str) -> str:
    lasso = proof_of(loop).lasso
    assert lasso is not None
    cycle = ", ".join(f"`{describe(step.signal)}`" for step in lasso.cycle)
    return f"- `{loop}`: {cycle}"


FAILING_TEST = "test_weather.py"
"""The file of the README's example, which is a failing test of an agent on an SDK."""

_FOUND = "completed-after-a-complete-reply.simloop.yaml"


def python_with_sdks() -> str:
    """Return this Python if it has the SDKs, or that of the environment of tests that has them."""
    if find_spec("openai"):
        return sys.executable
    sys.path.append(str(TOP / "tests" / "support"))  # pytest has it there; a script has not
    from environments import built  # noqa: PLC0415 - only a script needs it

    return str(built("sdks"))


FILE = re.compile(r"^```(?:python|yaml) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""An example of a page that is a file of its own, with its name."""


@contextmanager
def files_of(text: str) -> Iterator[Path]:
    """Give a folder with the files of a page; a second block of a file replaces functions."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, block in FILE.findall(text):
            with (folder / file).open("a", encoding="utf-8") as opened:
                opened.write(block)
        yield folder


def printed_in(folder: Path, *module: str) -> str:
    """Return what the module prints there; its exit code must be 1."""
    run = done(python_with_sdks(), folder, *module)
    assert run.code == 1, run.printed + run.errors
    return run.printed


def failure(page: Path, file: str) -> str:
    """The report that pytest prints of that file, with the examples before it, as a block."""
    before, mark, _ = page.read_text("utf-8").partition("<!-- failure: generated -->")
    assert mark, page
    with files_of(before) as folder:
        loaded = ("-W", "ignore:Module already imported")  # a fork has what it would import
        options = ("--tb=short", "-p", "no:cacheprovider", *loaded)
        printed = printed_in(folder, "pytest", *options, file)
    # pytest's last lines, and the summary of simloop with its real time, are left out.
    report = re.search(r"^____.*(?=^simloop: \d+ runs?, )", printed, re.MULTILINE | re.DOTALL)
    assert report is not None, printed
    return "\n".join(["```", *(line.rstrip() for line in report[0].splitlines()), "```"])


def found() -> str:
    """A scenario that `simloop fuzz` writes for the agent of the README, as a block."""
    loop = f"{FAILING_TEST.removesuffix('.py')}:answer"
    with files_of(README.read_text("utf-8")) as folder:
        printed_in(folder, "simloop", "fuzz", "--loop", loop, "--runs", "30", "--out", ".")
        return f"```\n{(folder / _FOUND).read_text('utf-8')}```"


README, DOCS = TOP / "README.md", TOP / "docs"
PAGES = (README, *sorted(DOCS.glob("*.md")))
"""The pages for users."""

PROGRAMS = tuple(page for page in PAGES if page.name != "sdks.md")
"""The pages whose examples are whole programs; those of the other one are parts of the recipes."""


def readme_text() -> str:
    """The README with the report of its failing test, and with a finding of its agent."""
    return _filled(README, {"failure": failure(README, FAILING_TEST), "found": found()})


def bot_text() -> str:
    """The page about the tests of a bot with the report of the first that fails."""
    page = DOCS / "testing-a-bot.md"
    return _filled(page, {"failure": failure(page, "test_calls.py")})


def fuzz_text() -> str:
    """The page about the search with what its command reports, but for the line with the time."""
    page = DOCS / "fuzz.md"
    text = page.read_text("utf-8")
    command = re.findall(r"^simloop fuzz .*", text, re.MULTILINE)
    assert len(command) == 1, command
    with files_of(text) as folder:
        report = printed_in(folder, *command[0].split()).rstrip().rpartition("\n")[0]
    return _filled(page, {"report": f"```\n{report}\n```"})


STEP = re.compile(
    r"^```(?:(?:python|yaml) (?P<file>\S+)\n(?P<block>.*?)|console\n(?P<steps>.*?))^```$",
    re.MULTILINE | re.DOTALL,
)
RECORDED = TOP / "tests" / "recordings" / "files" / "refunds.yaml"


def recordings_text() -> str:
    """The page about recordings with what each of its commands prints, in their order."""
    page = DOCS / "recordings.md"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "session.yaml").write_text(RECORDED.read_text("utf-8"), "utf-8")

        def told(step: re.Match[str]) -> str:
            if step["file"]:
                with (folder / step["file"]).open("a", encoding="utf-8") as opened:
                    opened.write(step["block"])
                return step[0]
            commands = re.findall(r"^\$ .*$", step["steps"], re.MULTILINE)
            return "\n".join(["```console", *(_told_in(folder, each) for each in commands), "```"])

        return STEP.sub(told, page.read_text("utf-8"))


def _told_in(folder: Path, line: str) -> str:
    words = line.removeprefix("$ ").split()
    if words[0] == "simloop":
        run = done(python_with_sdks(), folder, *words, both=True)
    else:
        other = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
        run = Done(0, other.stdout)
    assert run.code in (0, 1), run.printed
    return "\n".join([line, *(each.rstrip() for each in run.printed.strip().splitlines())])


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


CLIENTS = ("httpx", "httpx2", "aiohttp", "urllib3")
SDKS = ("openai", "openai", "anthropic", "google-genai", "boto3")
"""The packages of the providers' SDKs, in the order of the formats."""


def answered() -> str:
    """The HTTP clients and the wire formats, each with the versions that tests install."""
    pins = {line for file in PINNED.glob("*.txt") for line in file.read_text("utf-8").split()}
    tested: dict[str, list[str]] = {}
    for pin in sorted(pins, key=lambda pin: [*map(int, re.findall(r"[0-9]+", pin))]):
        package, _, version = pin.partition("==")
        tested.setdefault(package, []).append(version)
    rows = {name: ("an HTTP client", name, tested[name]) for name in CLIENTS}
    for form, sdk in zip(FORMATS, SDKS, strict=True):
        rows[form.name] = (f"POST {form.path}", sdk, tested[sdk])
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    return f"{{\n{lines}\n}}\n"


GENERATED: Mapping[Path, Callable[[], str]] = {
    README: readme_text,
    DOCS / "testing-a-bot.md": bot_text,
    DOCS / "fuzz.md": fuzz_text,
    DOCS / "scenarios.md": scenarios_text,
    DOCS / "recordings.md": recordings_text,
    DOCS / "loops.md": loops_text,
    DOCS / "proofs.md": proofs_text,
    ANSWERED: answered,
    TOP / "scenarios" / "README.md": catalogue_text,
    TOP / "scenarios" / "schema.json": generated_schema,
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
