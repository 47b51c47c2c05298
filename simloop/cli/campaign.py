"""`simloop campaign`: show and merge the results of a long search.

Not here: the search (fuzz) and its file (fuzz/campaign.py). The rule to keep: `show` reads a
campaign at any time, also during the search, and changes nothing.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from simloop.cli.terminal import note, out_exactly, out_lines, plain
from simloop.errors import ScenarioError
from simloop.fuzz.campaign import Campaign, CampaignSettings, ChunkResult, Totals, totals
from simloop.trace.storage import write_file

_NS_PER_S = 1_000_000_000


@click.group("campaign")
def command() -> None:
    """Show and merge the results of long searches.

    `simloop fuzz --campaign FILE` writes the results.
    """


_FILE = click.argument("file", type=click.Path(path_type=Path))


@command.command("show")
@_FILE
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="The format of the output; html needs the extra `plots`.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to FILE instead of stdout.",
)
def show(file: Path, output_format: str, output: Path | None) -> int:
    """Show the runs, the goals and the failures of a campaign.

    The exit code is 1 if the campaign has found a failure.
    """
    with Campaign.open(file) as campaign:
        results = list(campaign.results())
        settings = campaign.settings
    sums = totals(iter(results))
    if output is not None and output.exists() and output.samefile(file):
        raise ScenarioError("--output would overwrite the campaign", key="--output")
    text = _written(settings, results, sums, output_format)
    if output is not None:
        write_file(output, f"{text}\n".encode(errors="backslashreplace"))
        note(f"written: {plain(str(output))}")
    elif output_format == "text":
        out_lines(text.split("\n"))
    else:
        out_exactly(text)
    return 1 if sums.failures else 0


@command.command("merge")
@_FILE
@click.argument("others", metavar="OTHER...", type=click.Path(path_type=Path), nargs=-1)
def merge(file: Path, others: tuple[Path, ...]) -> int:
    """Add the finished chunks of other files of the campaign to FILE.

    Several machines can search for one campaign: simloop fuzz --shard 1/2, --shard 2/2 and so on.
    """
    with Campaign.open(file) as campaign:
        before = len(campaign.finished)
        for path in others:
            with Campaign.open(path) as other:
                campaign.merge(other)
        added = len(campaign.finished) - before
    note(f"{plain(str(file))}: {added} chunk{'s' * (added != 1)} added")
    return 0


def _written(
    settings: CampaignSettings, results: Sequence[ChunkResult], sums: Totals, output_format: str
) -> str:
    if output_format == "json":
        return json.dumps(as_data(settings, len(results), sums), indent=2)
    if output_format == "html":
        from simloop.cli.campaign_page import page  # noqa: PLC0415 - only for html

        return page(settings, results, sums)
    return "\n".join(summary(settings, len(results), sums))


def summary(settings: CampaignSettings, chunks: int, sums: Totals) -> list[str]:
    """Return the lines of a report on a campaign."""
    against = f" against {settings.against}" if settings.against else ""
    cpu_s, virtual_h = sums.cpu_ns / _NS_PER_S, sums.virtual_ns / _NS_PER_S / 3600
    played = f"{sums.runs:,} runs in {chunks:,} chunk{'s' * (chunks != 1)}"
    times = f"{cpu_s:,.1f} s of processor time, {virtual_h:,.1f} h of virtual time"
    lines = [
        f"{settings.loop}{against}, seed {settings.seed}, {settings.arm}: {played}, {times}",
        f"coverage: {len(sums.edges):,} pairs",
        f"goals: {sum(map(bool, sums.goals.values()))} of {len(sums.goals)} reached",
    ]
    lines += [f"  not reached: {plain(goal)}" for goal in unreached(sums)]
    lines.append(f"failures: {len(sums.failures)}")
    for group, failure in sums.failures.items():
        runs, cpu_ns = sums.first[group]
        lines.append(
            f"  {plain(failure.name)}: {plain(failure.text)} ({failure.count:,} "
            f"run{'s' * (failure.count != 1)}, first after {runs:,} runs and "
            f"{cpu_ns / _NS_PER_S:.2f} s)"
        )
    return lines


def unreached(sums: Totals) -> list[str]:
    """Return the goals that no run has reached, in the order of the catalogue."""
    return [goal for goal, count in sums.goals.items() if not count]


def as_data(settings: CampaignSettings, chunks: int, sums: Totals) -> dict[str, object]:
    """Return the report as data for JSON."""
    return {
        "loop": settings.loop,
        "against": settings.against or None,
        "seed": settings.seed,
        "arm": settings.arm,
        "chunks": chunks,
        "runs": sums.runs,
        "cpu_ns": sums.cpu_ns,
        "virtual_ns": sums.virtual_ns,
        "edges": sums.edges,
        "goals": sums.goals,
        "failures": [
            {
                "name": failure.name,
                "shape": failure.shape,
                "text": failure.text,
                "sentence": failure.sentence,
                "runs": failure.count,
                "first_run": sums.first[group][0],
                "first_cpu_ns": sums.first[group][1],
                "scenario": failure.scenario,
            }
            for group, failure in sums.failures.items()
        ],
    }
