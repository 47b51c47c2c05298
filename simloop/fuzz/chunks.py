"""A chunk of a campaign: a search whose seed is derived from that of the campaign.

Not here: the distribution of chunks to processes (workers.py). The rule to keep: a chunk is a pure
function of the settings and its number, except for its measured times.
"""

from collections.abc import Iterator
from itertools import chain

from simloop.errors import ScenarioError
from simloop.fuzz.campaign import CampaignSettings, ChunkResult, FailureGroup, Totals
from simloop.fuzz.failures import FoundFailure, shape_of
from simloop.fuzz.play import Failure
from simloop.fuzz.search import FuzzReport, Search
from simloop.fuzz.swarm import Arm
from simloop.fuzz.twin import Twin
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text
from simloop.virtual.seeds import Seeds

_NS_PER_S = 1_000_000_000


def seed_of(settings: CampaignSettings, number: int) -> int:
    """Return the seed of the search of one chunk."""
    return Seeds(settings.seed).number(f"chunk {number}") >> 1


def play_chunk(settings: CampaignSettings, number: int) -> ChunkResult:
    """Search for `settings.runs_per_chunk` runs and return the result."""
    search = Search(
        settings.loop,
        seed=seed_of(settings, number),
        arm=settings.arm,
        scenarios=[parse_scenario(text) for text in settings.corpus] or None,
        against=settings.against or None,
    )
    search.twin = Twin(settings.loop)
    for _ in chain(search.steps(runs=settings.runs_per_chunk), search.finish()):
        pass
    report = search.report()
    edges, situations = search.coverage.names()
    return ChunkResult(
        number,
        report.runs,
        int(report.cpu_s * _NS_PER_S),
        int(report.virtual_s * _NS_PER_S),
        goals=dict(report.goals),
        looked_at=report.looked_at,
        edges=edges,
        situations=situations,
        failures=tuple(_group(found, search.seed) for found in report.failures),
    )


def _group(found: FoundFailure, seed: int) -> FailureGroup:
    return FailureGroup(
        name=found.name,
        shape=shape_of(found.failure.text),
        text=found.failure.text,
        sentence=found.failure.sentence,
        scenario=_text(found),
        seed=seed,
        run=found.run,
        cpu_ns=int(found.cpu_s * _NS_PER_S),
        count=found.count,
        reproduced=found.reproduced,
    )


def _text(found: FoundFailure) -> str:
    try:
        return scenario_text(found.scenario)
    except ScenarioError:  # text with half a surrogate pair, which no file can hold
        return ""


def report_of(settings: CampaignSettings, sums: Totals) -> FuzzReport:
    """Return the report on a campaign as a `FuzzReport`, like that of a single search."""
    return FuzzReport(
        loop=settings.loop,
        seed=settings.seed,
        arm=Arm(settings.arm),
        runs=sums.runs,
        cpu_s=sums.cpu_ns / _NS_PER_S,
        virtual_s=sums.virtual_ns / _NS_PER_S,
        edges=len(sums.edges),
        reached=len(sums.situations),
        goals=sums.goals,
        looked_at=sums.looked_at,
        failures=tuple(_failures_of(sums)),
    )


def _failures_of(sums: Totals) -> Iterator[FoundFailure]:
    for failure in sums.failures.values():
        yield FoundFailure(
            Failure(failure.name, failure.text, failure.sentence),
            parse_scenario(failure.scenario or "prompt: the scenario cannot be written"),
            failure.run,
            failure.cpu_ns / _NS_PER_S,
            failure.count,
            failure.reproduced,
            failure.seed,
        )
