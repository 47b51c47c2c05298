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
    """A program of others: its package, its loop, the folder of its scenarios, and how it runs.

    Without a loop, the scenarios name a command, which begins in a fork anyway. A fork is also for
    those that keep something from one run for the next.
    """

    package: str
    loop: str = ""
    folder: str = "situations"
    isolated: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of each command that runs it."""
        loop = ("--loop", self.loop) if self.loop else ()
        return (*loop, *(("--isolate",) if self.isolated else ()))

    @property
    def way(self) -> str:
        """Return how it runs, where one package runs in two ways."""
        function = self.loop.partition(":")[2] or "command"
        return "" if function == "agent" else f", {function}"

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Return its scenario files, in the order of the table."""
        return tuple(f"{self.folder}/{name}.simloop.yaml" for name in SITUATIONS)


SITUATIONS = (
    "tool-call", "rate-limit", "server-errors", "cut-stream", "content-filter", "broken-arguments",
)  # fmt: skip
PROGRAMS = {  # by their environments, because their packages exclude each other
    "agents": (
        Program("agent-framework-openai", "with_agent_framework:chat"),
        Program("agent-framework-openai", "with_agent_framework:responses"),
        Program("agno", "with_agno:agent"),
        Program("autogen-agentchat", "with_autogen:agent"),
        Program("deepagents", "with_deepagents:agent"),
        Program("fastapi", "two_users:agent", "two_users"),
        Program("haystack-ai", "with_haystack:agent"),
        Program("inspect-ai", "with_inspect:agent", "inspect", isolated=True),
        Program("llm", "with_llm:agent"),
        Program("mini-swe-agent", "with_mini_swe_agent:agent", "mini"),
        Program("semantic-kernel", "with_semantic_kernel:agent"),
    ),
    "aider": (
        Program("aider-chat", "with_aider:agent", "aider"),
        Program("aider-chat", folder="aider"),
    ),
    "clouds": (
        Program("boto3", "with_boto3:agent"),
        Program("google-adk", "with_google_adk:agent"),
        Program("google-genai", "with_google_genai:agent"),
        Program("strands-agents", "with_strands:agent"),
    ),
    "crews": (
        Program("crewai", "with_crewai:agent", isolated=True),
        Program("llama-index-core", "with_llama_index:agent", isolated=True),
    ),
    "gptme": (
        Program("gptme", "with_gptme:agent", "gptme", isolated=True),
        Program("gptme", folder="gptme"),
    ),
}


def traces(environment: str, python: str | Path, hash_seed: str = "1") -> Iterator[list[LoopTrace]]:
    """Run the programs of an environment; yield for each its traces, in the order of the table."""
    with TemporaryDirectory() as folder:
        runs = [
            [
                ("run", path, *one.options, "--trace", f"{folder}/{number}-{Path(path).name}")
                for path in one.scenarios
            ]
            for number, one in enumerate(PROGRAMS[environment])
        ]
        environments.told_by(*chain(*runs), python=python, hash_seed=hash_seed)
        for commands in runs:
            yield [read_trace(command[-1]) for command in commands]


def rows(environment: str, found: Iterable[list[LoopTrace]]) -> Iterator[str]:
    """Yield the lines of the table for the programs of an environment: outcomes and requests."""
    pins = (environments.PINNED / f"{environment}.txt").read_text("utf-8").split()
    versions = dict(line.split("==") for line in pins)
    for program, each in zip(PROGRAMS[environment], found, strict=True):
        name = f"{program.package} {versions[program.package]}{program.way}"
        cells = (f"{trace.outcomes[-1]} {len([*requests(trace.entries)])}" for trace in each)
        yield f"| {' | '.join((name, *cells))} |\n"


def page_with(lines: list[str]) -> str:
    """Return the page with the table of these lines."""
    head = f"| program | {' | '.join(SITUATIONS)} |\n|{' --- |' * (1 + len(SITUATIONS))}\n"
    return with_block("programs", head + "".join(sorted(lines)))


if __name__ == "__main__":
    made = [
        line for name in PROGRAMS for line in rows(name, traces(name, environments.built(name)))
    ]
    PAGE.write_text(page_with(made), "utf-8")
