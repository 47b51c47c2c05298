"""The command line: one file per verb, each loaded on first use.

Exit codes: 0 success, 1 a failed expectation or check, 2 wrong usage or a bad file, 3 an error in
simloop itself, 130 interrupted, 141 the reader of stdout closed it (as other tools end). Results go
to stdout, everything else to stderr.
"""

import io
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from simloop import __version__
from simloop.cli.process import load
from simloop.cli.terminal import explain, note, wants_colour

INTERRUPTED = 130

_GROUPS = Path(__file__).with_name("verbs.txt").read_text("utf-8").split("\n\n")
GROUPS = {
    title: {verb: (module, line) for verb, module, line in (each.split(" ", 2) for each in verbs)}
    for title, *verbs in map(str.splitlines, _GROUPS)
}
"""The verbs by use, each with its module and its `--help` line; `--help` loads no module."""

VERBS = {verb: module for group in GROUPS.values() for verb, (module, _) in group.items()}


class Verbs(click.Group):
    """A group that loads a verb on first use; a verb returns its exit code, or None for 0."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return super().get_command(ctx, cmd_name)
        names = vars(load(f"simloop.cli.{VERBS[cmd_name]}")).values()
        commands = (each for each in names if isinstance(each, click.Command))
        return next(each for each in commands if each.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        widest = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                lines = ((f"{verb:<{widest}}", line) for verb, (_, line) in verbs.items())
                formatter.write_dl([*lines])

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the verb as click does; verbs print here."""
        from simloop.virtual.border.output import captured  # noqa: PLC0415 - for a verb, not for `--help`

        with captured():
            return super().invoke(ctx)

    def main(self, *args: Any, **given: Any) -> NoReturn:
        given["standalone_mode"] = False  # else click exits with 1 for Ctrl-C
        if "" not in sys.path and (here := str(Path.cwd())) not in sys.path:
            sys.path.append(here)  # finds a user's own loop, as `python -m simloop` does
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may know ASCII only
        try:
            code = super().main(*args, **given) or 0
        except click.Abort:
            note("interrupted")
            code = INTERRUPTED
        except click.ClickException as error:
            shown = io.StringIO()
            error.show(shown)
            note(shown.getvalue().rstrip("\n"))
            code = 2
        except Exception as error:  # noqa: BLE001 - the top: every error becomes an exit code
            code = explain(error)
        sys.exit(code)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all is well, 1 an expectation or check failed, 2 wrong usage or a bad "
    "file, 3 simloop itself is wrong, 130 interrupted. NO_COLOR and FORCE_COLOR switch colour off "
    "and on. For tab completion, put this into the start file of your shell: "
    'eval "$(_SIMLOOP_COMPLETE=bash_source simloop)"; with zsh write zsh_source, and with fish '
    "write: _SIMLOOP_COMPLETE=fish_source simloop | source",
)  # fmt: skip
@click.version_option(__version__, message="simloop %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Deterministic simulation testing for LLM agent loops."""
    ctx.color = wants_colour()
