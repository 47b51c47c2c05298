"""The strict account of a scenario: replies that were not used, actions that never happened.

Not here: the script itself (world/fake_model.py). The rule to keep: the error says how the run
ended, because ending early often explains unused replies.
"""

from simloop.errors import ScriptUnused
from simloop.runs.mismatch import mismatches_by_default
from simloop.runs.prepared import PreparedRun
from simloop.runs.result import Result
from simloop.scenario.catalog import name_of
from simloop.world.fake_model import FakeModel


def unused(run: PreparedRun) -> list[str]:
    """Return the places of unused replies, and of the user's actions that never happened."""
    replies = run.model.unused() if isinstance(run.model, FakeModel) else []
    return [*replies, *run.never_came()]


def check_script(run: PreparedRun, result: Result) -> None:
    """Raise ScriptUnused for unused replies and actions, unless the scenario expects a number."""
    expect = run.loop.expected
    if not result.unused_places or expect.unused is not None:
        return  # the latter is compared with the other expectations
    error = _unused_error(run)
    error.others = (": ".join(filter(None, (f"it ended with {result.outcome}", result.message))),)
    if run.loop.name == run.scenario.loop:
        error.others += tuple(map(str, mismatches_by_default(expect, result)))
    else:
        stated = f"{{outcome: {result.outcome}, unused: {result.unused}}}"
        error.hint = advice(run, stated)
    raise error


def advice(run: PreparedRun, stated: str) -> str:
    """Return the advice to state `stated` for a loop that is not the scenario's own."""
    name, loop = name_of(run.scenario.path), run.loop
    if name and loop.is_own:  # nobody can change the file
        return (
            f"if this is right, add to its `expect_on` or to a file for --expect: {name}: {stated}"
        )
    if not loop.has_name:  # a file names only loops that it can find
        return f"if this is right, set expect_on[{loop.name!r}] in Python: {stated}"
    return f"if this is right, add under expect_on: {loop.name}: {stated}"


def _unused_error(run: PreparedRun) -> ScriptUnused:
    never = run.never_came()
    message = f"these actions of the user never happened: {', '.join(never)}"
    try:
        if isinstance(run.model, FakeModel):
            run.model.check_account()
    except ScriptUnused as error:
        error.message += f"; {message}" if never else ""
        return error
    hint = "find out why the run ended early, or delete these actions"
    return ScriptUnused(message, key=never[0], hint=hint)
