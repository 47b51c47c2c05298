"""A proof as text, as JSON and as a picture.

Not here: proving (prove/proof.py). The rules to keep: the JSON names every key, and the text states
equal facts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec import Struct

from simloop.cli.jsonformat import FORMAT_VERSION, status_for
from simloop.kernel.diagram import Edge, mermaid
from simloop.kernel.durations import format_duration
from simloop.kernel.limits import Limits
from simloop.kernel.machine import LegalMap
from simloop.kernel.names import NAMES, describe
from simloop.kernel.states import Finished, Ready
from simloop.prove.graph import Lasso
from simloop.prove.proof import Longest, Proof
from simloop.prove.visited import Step

EXPLORED = ("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts")
_SHOWN = 12
"""The number of transitions of an example that the text shows; JSON has all of them."""


def proof_lines(proof: Proof, limits: Limits, options: Mapping[str, Any]) -> Iterator[str]:
    """Return the proof as text; it lists the options that are not the default."""
    visited = f"{proof.states:,} states and {proof.transitions:,} transitions visited"
    yield f"{proof.loop}: {_whether_it_ends(proof)} ({visited})"
    yield f"limits       {', '.join(f'{name} {getattr(limits, name)}' for name in EXPLORED)}"
    yield f"bounds       {', '.join(proof.bounds) or 'none'}"
    if proof.endless:
        yield f"endless      {proof.endless}"
    if proof.undeclared:
        yield f"undeclared   {', '.join(proof.undeclared)}: no bound, so not proved to be kept"
    if options:
        yield f"options      {', '.join(f'{name} {_written(v)}' for name, v in options.items())}"
    if proof.longest is not None:
        yield from _longest_lines(proof.longest)
    yield from _outcome_lines(proof)
    taken = proof.edges - len(proof.untaken)
    yield f"map          {taken} of {proof.edges} edges can be taken under these limits and options"
    for edge, reason in proof.untaken.items():
        yield f"             not taken: {_edge_text(edge)}{f' ({reason})' if reason else ''}"
    if proof.lasso is not None:
        yield from _lasso_lines(proof.lasso)
    for violation in proof.violations:
        yield f"WRONG        {violation.what}"
        yield from step_lines(violation.counterexample)


def _whether_it_ends(proof: Proof) -> str:
    if proof.lasso is not None:
        return f"a run may never end{', on purpose' if proof.endless else ''}"
    return "every run ends" if proof.terminates else "not proved that every run ends, see WRONG"


def _written(value: Any) -> str:
    return json.dumps(value).strip('"')


def _longest_lines(longest: Longest) -> Iterator[str]:
    yield f"longest run  {longest.transitions:,} transitions"
    yield f"             {longest.model_calls:,} model calls"
    yield f"             {longest.tool_rounds:,} tool rounds"
    asked = format_duration(longest.backoff_asked_ns)
    backoff = format_duration(longest.backoff_ns)
    yield f"             {backoff} of backoff, {asked} if the provider asks for it"


def _outcome_lines(proof: Proof) -> Iterator[str]:
    head = "outcomes"
    for state, steps in proof.endings.items():
        ended = f"{state.outcome}{f' by {state.limit}' if state.limit else ''}"
        yield f"{head:<13}{ended} in {_count(steps)}"
        head = ""


def _lasso_lines(lasso: Lasso) -> Iterator[str]:
    yield f"lasso        after {_count(lasso.prefix)}, then endlessly in {_count(lasso.cycle)}"
    yield from step_lines(lasso.prefix)
    yield "             round:"
    yield from step_lines(lasso.cycle)


def step_lines(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the last transitions of an example, one on a line."""
    skipped = len(steps) - _SHOWN
    if skipped > 1:
        yield f"             ... {_count(steps[:skipped])} before"
        steps = steps[skipped:]
    for step in steps:
        yield f"             {describe(step.signal):<48} -> {describe(step.run.state)}"


def _count(steps: Sequence[Step]) -> str:
    return f"{len(steps):,} transition{'s' * (len(steps) != 1)}"


def _edge_text(edge: Edge) -> str:
    state, signal, target = (NAMES[kind] for kind in edge)
    return f"{state} -> {target} on {signal}"


def proof_json(proof: Proof, limits: Limits, options: dict[str, Any]) -> str:
    """Return the proof as one JSON object."""
    lasso = proof.lasso
    document = {
        "format_version": FORMAT_VERSION,
        "status": status_for(0 if proof.holds else 1),
        "loop": proof.loop,
        "limits": {name: getattr(limits, name) for name in EXPLORED},
        "bounds": list(proof.bounds),
        "undeclared": list(proof.undeclared),
        "options": options,
        "terminates": proof.terminates,
        "endless": proof.endless,
        "states": proof.states,
        "transitions": proof.transitions,
        "longest_run": None if proof.longest is None else asdict(proof.longest),
        "outcomes": [
            {"outcome": state.outcome, "limit": state.limit, "example": steps_json(steps)}
            for state, steps in proof.endings.items()
        ],
        "lasso": lasso and {"prefix": steps_json(lasso.prefix), "cycle": steps_json(lasso.cycle)},
        "edges": proof.edges,
        "untaken": [
            {**_edge_json(edge), "reason": reason} for edge, reason in proof.untaken.items()
        ],
        "violations": [
            {"what": violation.what, "counterexample": steps_json(violation.counterexample)}
            for violation in proof.violations
        ],
    }
    return json.dumps(document, indent=2)


def steps_json(steps: Iterable[Step]) -> list[dict[str, str]]:
    """Return all transitions of an example."""
    return [{"signal": describe(step.signal), "state": describe(step.run.state)} for step in steps]


def _edge_json(edge: Edge) -> dict[str, str]:
    return {key: NAMES[kind] for key, kind in zip(("state", "signal", "to"), edge, strict=True)}


def proof_mermaid(proof: Proof, legal: LegalMap) -> str:
    """Return the edges that can be taken; those of the lasso have a star."""
    return mermaid(legal, without=proof.untaken, marked=_edges_of(proof.lasso))


def _edges_of(lasso: Lasso | None) -> set[Edge]:
    edges: set[Edge] = set()
    state: type[Struct] = Ready
    for step in () if lasso is None else (*lasso.prefix, *lasso.cycle):
        edges.add((state, type(step.signal), type(step.run.state)))
        state = type(step.run.state)
    return edges


def file_stem(state: Finished) -> str:
    """Return the file name, without its ending, of a scenario that shows this end."""
    limit = re.sub(r"[^a-z0-9]+", "-", state.limit.lower()).strip("-")  # a machine chooses the word
    return "-".join(filter(None, (str(state.outcome), limit)))
