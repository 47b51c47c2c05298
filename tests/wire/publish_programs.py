"""Runs agent programs of others, for the table of docs/compared.md.

PYTHONPATH=tests/support python tests/wire/publish_programs.py writes it. It builds each
environment, which takes minutes.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import environments
from publish_compare import PAGE, with_block

from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests


class Program(NamedTuple):
    """A program of others: its loop, the folder of its scenarios, and whether it runs in forks.

    A fork is for those that keep something from one run for the next.
    """

    loop: str
    folder: str = "situations"
    isolated: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of each command that runs it."""
        return ("--loop", self.loop, *(("--isolate",) if self.isolated else ()))

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return its scenario files, in the order of the table."""
        return tuple(f"{self.folder}/{name}.simloop.yaml" for name in SITUATIONS)


SITUATIONS = (
    "tool-call", "rate-limit", "server-errors", "cut-stream", "content-filter", "broken-arguments",
)  # fmt: skip
PROGRAMS = {  # environment: package: program
    "agents": {
        "agno": Program("with_agno:agent"),
        "autogen-agentchat": Program("with_autogen:agent"),
        "deepagents": Program("with_deepagents:agent"),
        "haystack-ai": Program("with_haystack:agent"),
        "llm": Program("with_llm:agent"),
        "semantic-kernel": Program("with_semantic_kernel:agent"),
    },
    "crews": {
        "crewai": Program("with_crewai:agent", isolated=True),
        "llama-index-core": Program("with_llama_index:agent", isolated=True),
    },
}


def traces(environment: str, python: str | Path, hash_seed: str = "1") -> Iterator[list[LoopTrace]]:
    """Run the programs of an environment; yield for each its traces, in the order of the table."""
    programs = [*PROGRAMS[environment].values()]
    with TemporaryDirectory() as folder:
        runs = [
            [
                ("run", path, *one.options, "--trace", f"{folder}/{n}-{Path(path).name}")
                for path in one.scenarios
            ]
            for n, one in enumerate(programs)
        ]
        environments.told_by(*chain(*runs), python=python, hash_seed=hash_seed)
        for commands in runs:
            yield [read_trace(command[-1]) for command in commands]


def row(environment: str, package: str, found: list[LoopTrace]) -> str:
    """Return the line of the table for a program, with its outcomes and its requests."""
    pins = (environments.PINNED / f"{environment}.txt").read_text("utf-8").split()
    version = dict(line.split("==") for line in pins)[package]
    cells = (f"{trace.outcomes[-1]} {len([*requests(trace.entries)])}" for trace in found)
    return f"| {' | '.join((f'{package} {version}', *cells))} |\n"


def rows(environment: str, found: Iterable[list[LoopTrace]]) -> Iterator[str]:
    """Yield the lines of the table for the programs of an environment."""
    for package, each in zip(PROGRAMS[environment], found, strict=True):
        yield row(environment, package, each)


def page_with(lines: list[str]) -> str:
    """Return the page with the table of these lines."""
    head = f"| program | {' | '.join(SITUATIONS)} |\n|{' --- |' * (1 + len(SITUATIONS))}\n"
    return with_block("programs", head + "".join(sorted(lines)))


if __name__ == "__main__":
    made = [
        line for name in PROGRAMS for line in rows(name, traces(name, environments.built(name)))
    ]
    PAGE.write_text(page_with(made), "utf-8")
