"""A faulty loop: a correct one with a few words of one function exchanged.

The words must stand in the function exactly once, so that a fault that no longer fits the code says
so. Exchanging the code object of the function reaches every place that has imported it, and every
object that was made before.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from simloop import (
    AssistantMessage,
    Scenario,
    Simulation,
    ToolMessage,
    parse_scenario,
)
from simloop.check.invariants.subject import Break, Subject
from simloop.check.trial import Rules, trial
from simloop.errors import CheckFailed
from simloop.runs.plan import Plan
from simloop.scenario.yaml import read_yaml
from simloop.trace.entries import ToolResult, ToolStarted
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit: `by` replaces `replace` in the function `target`, a module:qualified.name."""

    target: str
    replace: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One faulty loop, as a file of `faults` states it.

    `loop` is the correct one that the edits are made to: the name of a design, or of an agent as
    module:attribute. On the scenario `witness` the correct loop meets the expectations `right`, and
    the faulty one `wrong` and not `right`. `violates` names the invariants that must report it.
    `circumstances` must come together in one run, if there are several. `unusual` names the limits
    and policies of the witness without which the fault stays hidden.
    """

    name: str
    says: str
    edits: tuple[Edit, ...]
    witness: str
    right: str
    wrong: str
    loop: str = "reference"
    bug: str = ""
    violates: tuple[str, ...] = ()
    circumstances: tuple[str, ...] = ()
    unusual: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def part(self) -> str:
        """The part of the tree that has the fault: machine, engine, agent or sdk."""
        if self.loop.startswith("sdk_agents."):
            return "sdk"
        if ":" in self.loop:
            return "agent"
        return "machine" if self.edits[0].target.startswith("simloop.loops.") else "engine"

    @property
    def sdk(self) -> str:
        """The package that the correct loop needs in its environment."""
        return "anthropic" if self.loop.startswith("sdk_agents.claude:") else "pydantic_ai"

    @property
    def runs_here(self) -> bool:
        """Whether this environment has the packages of the correct loop."""
        return self.part != "sdk" or importlib.util.find_spec(self.sdk) is not None

    def given_loop(self) -> Any:
        """The correct loop, as the option `loop` of a run takes it."""
        if ":" not in self.loop:
            return self.loop
        module, _, name = self.loop.partition(":")
        return getattr(importlib.import_module(module), name)

    def scenario(self, expected: str) -> Scenario:
        """The witness with these expectations."""
        return parse_scenario(f"{self.witness}expect: {expected}\n")


@contextmanager
def applied(fault: Fault) -> Iterator[None]:
    """Make the loop of `fault` faulty in the `with` block."""
    with ExitStack() as stack:
        for target in dict.fromkeys(edit.target for edit in fault.edits):
            function = function_of(target)
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = edited(target, fault.edits)
        yield


def function_of(target: str) -> FunctionType:
    """The function under the decorators of `module:qualified.name`."""
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType)
    return function


@cache
def edited(target: str, edits: tuple[Edit, ...]) -> CodeType:
    """The code of the target with those of the edits that are of it.

    Raises ValueError unless the words of each stand there once.
    """
    function = function_of(target)
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        if edit.target == target:
            times = source.count(edit.replace)
            if times != 1:
                raise ValueError(f"{target} has {edit.replace!r} {times} times, not once")
            source = source.replace(edit.replace, edit.by)
    tree = ast.parse(source)
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    made = _compiled(tree, function.__code__)
    if made.co_freevars != function.__code__.co_freevars:
        raise ValueError(f"{target} closes over other names after the edit")
    return made.replace(co_qualname=function.__code__.co_qualname)


def _compiled(tree: ast.Module, code: CodeType) -> CodeType:
    """The code of the one function in `tree`, which closes over the names that `code` does."""
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    function.decorator_list = []
    names = "".join(f"    {name} = None\n" for name in code.co_freevars)
    outer = ast.parse(f"def outer():\n{names}    pass\n")
    (around,) = outer.body
    assert isinstance(around, ast.FunctionDef)
    around.body.append(function)
    compiled = compile(ast.fix_missing_locations(outer), code.co_filename, "exec")
    return _named(function.name, _named("outer", compiled))


def _named(name: str, code: CodeType) -> CodeType:
    (found,) = (
        each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name
    )
    return found


_OWN = (
    "system_prompts", "broken_pairs", "ids_run", "results", "results_sent", "errors_sent",
    "words_sent", "arguments_sent", "crash",
)  # fmt: skip
"""The expectations that are not those of a result."""


def play(fault: Fault, expected: str) -> tuple[Simulation, tuple[str, ...]]:
    """Run the witness. Return the run, and the expectations that do not hold."""
    wanted = read_yaml(f"expect: {expected}", "").data["expect"]
    own = {name: wanted.pop(name) for name in _OWN if name in wanted}
    plan = Plan(fault.scenario(json.dumps(wanted)), {"loop": fault.given_loop()})
    verdict = trial(plan, Rules(()))
    unmet, error = verdict.failures, verdict.worst
    assert verdict.run is not None
    assert error is None or isinstance(error, CheckFailed), error
    if error is not None and own.pop("crash", "") != type(error).__name__:
        unmet = (f"{type(error).__name__}: {error.message}",)
    seen = _seen(verdict.run.trace)
    others = [f"{name}: {seen[name]}" for name, value in own.items() if seen[name] != value]
    return verdict.run, (*unmet, *others)


def _seen(trace: LoopTrace) -> dict[str, object]:
    record, sent = trace.entries, list(requests(trace.entries))
    newest = sent[-1].messages if sent else ()
    return {
        "system_prompts": [each.system_prompt for each in sent],
        "broken_pairs": _broken_pairs(trace),
        "ids_run": [each.call_id for each in record if type(each) is ToolStarted],
        "results": [each.text for each in record if type(each) is ToolResult],
        "results_sent": [each.text for each in newest if type(each) is ToolMessage],
        "errors_sent": sum(type(each) is ToolMessage and each.is_error for each in newest),
        "words_sent": [each.text for each in newest if type(each) is AssistantMessage],
        "arguments_sent": [
            call.arguments
            for each in newest
            if type(each) is AssistantMessage
            for call in each.calls
        ],
    }


def _broken_pairs(trace: LoopTrace) -> list[str]:
    """The broken pairs, each with the first request that has it."""
    subject, found = Subject(), dict[tuple[str, str], Break]()
    for entry in trace.entries:
        subject.read(entry)
        for one in subject.breaks:
            found.setdefault((one.call_id, one.why), one)
    return [str(one) for one in sorted(found.values())]
