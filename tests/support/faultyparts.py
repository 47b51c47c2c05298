"""Parts of simloop that are broken on purpose, each by another line in one of its methods."""

import contextlib
import importlib
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from broken import edited

from simloop import Reply, Scenario, Simulation
from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject
from simloop.runs.options import RunOptions

LOOK = Reply.model_validate({"say": "I look.", "call": {"look": {}}})
DONE = Reply(say="Done.")
TOOLS = {"look": {"returns": "seen"}}


class Part(NamedTuple):
    """A method, as `module:Class.method`, and texts to put in the place of others: old, new ..."""

    where: str
    texts: tuple[str, ...]


def part(where: str, *texts: str) -> Part:
    return Part(where, texts)


@contextlib.contextmanager
def faulty(broken: Part) -> Iterator[None]:
    """Break a method of simloop, and mend it at the end."""
    module, _, path = broken.where.partition(":")
    method: Any = importlib.import_module(f"simloop.{module}")
    for name in path.split("."):
        method = inspect.getattr_static(method, name)
    method = getattr(method, "fget", method)
    whole = method.__code__
    made = edited(method, *broken.texts)
    method.__code__ = getattr(made, "fget", made).__code__  # in every place that has it
    try:
        yield
    finally:
        method.__code__ = whole


def scenario(*replies: Any, **given: Any) -> Scenario:
    """Return a scenario with the tool `look`; a reply may be a mapping, as in a file."""
    tools = given.pop("tools", TOOLS)
    return Scenario.model_validate(
        {"prompt": "Go.", "model": list(replies), "tools": tools, **given}
    )


def violated(played: Scenario, **given: Any) -> set[str]:
    """Run a scenario, however it ends, and return the names of the violated invariants."""
    return set(violations(played, **given))


def violations(played: Scenario, **given: Any) -> dict[str, str]:
    """Run a scenario, however it ends, and return the violations by name."""
    options: RunOptions = {**given}  # type: ignore[typeddict-item]
    simulation = Simulation(played, **options)
    subject = Subject.of(simulation.prepared)
    with contextlib.suppress(Exception):  # the run until then is what counts
        simulation.run()
    found = judge(subject, simulation.trace.entries).violations
    return {each.name: each.text for each in found}
