"""The reported faults that the scenarios of recipes/faults show, by environment.

Each scenario states what should be, so that its check fails on a release that has the fault.
"""

from typing import NamedTuple

import environments


class Fault(NamedTuple):
    """A fault: the package that has it, its scenario, and how the check of that fails."""

    package: str
    name: str
    says: str

    @property
    def path(self) -> str:
        """Return its scenario file, from the folder of the recipes."""
        return path_of(self.name)


def path_of(name: str) -> str:
    """Return the scenario file of a fault."""
    return f"faults/{name}.simloop.yaml"


FAULTS = {
    "agents": (
        Fault(
            "agent-framework-core", "agent-framework-2329", "no reply of bob is left for request 4"
        ),
    ),
    "clouds": (
        Fault("google-adk", "google-adk-5054", "the run passed max_transitions=30"),
        Fault("strands-agents", "strands-4330", "expect.requests: expected 1, got 2"),
        Fault("strands-agents", "strands-4482", "the run passed max_transitions=30"),
    ),
    "faults": (  # releases that are older than those of the other environments
        Fault("agno", "agno-10086", "An assistant message with 'tool_calls' must be followed by"),
        Fault("google-genai", "google-genai-2044", "expect.requests: expected 2, got 1"),
    ),
    "frameworks": (
        Fault("langgraph", "langchain-answers-nothing", "expect.requests.oslo: expected 2, got 1"),
        Fault("langgraph", "langgraph-5952", "no reply of rome is left for request 7"),
        Fault("langgraph", "langgraph-6533", "invariant answers-reach-their-calls"),
        Fault("openai-agents", "openai-agents-4835", "request 2, which fits no `when` of refunds"),
    ),
}
MENDED = {"agents": ("agno-10086",), "clouds": ("google-genai-2044",)}
"""The faults of `faults` that a newer release, of another environment, no longer has."""


def check_of(environment: str) -> tuple[str, ...]:
    """Return the command that checks the scenarios of an environment's faults."""
    return ("check", *(fault.path for fault in FAULTS[environment]))


def missed(environment: str, told: tuple[int, str]) -> list[str]:
    """Return the faults that the check has not found, with what it has printed."""
    code, printed = told
    faults = FAULTS[environment]
    found = code == 1 and f"0 passed, {len(faults)} failed" in printed
    reports = [printed.partition(each.path)[2].partition("FAILED")[0] for each in faults]
    wrong = [
        each.name
        for each, report in zip(faults, reports, strict=True)
        if not found or each.says not in report
    ]
    return [*wrong, printed] if wrong else []


def row(environment: str, fault: Fault) -> str:
    """Return how the line of the table in docs/compared.md begins."""
    pins = (environments.PINNED / f"{environment}.txt").read_text("utf-8").split()
    version = dict(line.split("==") for line in pins)[fault.package]
    return f"| {fault.package} {version} | [{fault.name}](../tests/wire/recipes/{fault.path}) |"
