"""Runs to step through: opened, changed at the cursor, or shrunk.

A run is opened however it ended. A change at the cursor (a fault, an abort or a latency more, or
the fault at the cursor less) is a function of the scenario alone, and a fork is the run of the
changed scenario, so that it can be saved, tested and repeated as any other. The run before the
cursor must stay as it was, or the fork says at which entry it already differs.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from simloop.check.trial import UNJUDGED, trial
from simloop.cursor.index import Landmark
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun, Waits, opened_run
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.kernel.machine import Feature
from simloop.messages import Request
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan, script_of
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import content, scenario_text
from simloop.trace import entries
from simloop.trace.diff import first_difference
from simloop.trace.kinds import TRIGGERS, kind_of
from simloop.world.fake_model import Script
from simloop.world.faults import FAILURES, FAULTS, TOOL_ENDS
from simloop_tui.comparison import SideBySide
from simloop_tui.session import Session

# ---------------------------------------------------------------------- the script of a run


Draft: TypeAlias = dict[str, Any]
"""A scenario, or a part of one, as a file has it."""


def content_of(recording: RecordedRun) -> Draft:
    """Return the scenario of a recorded run as a file has it, without its expectations.

    A changed run need not end as the first one did.
    """
    assert recording.scenario is not None
    tree = content(recording.scenario)
    return {key: value for key, value in tree.items() if key not in {"expect", "expect_on"}}


def check_repeatable(recording: RecordedRun, to: str) -> None:
    """Raise ScenarioError for a run that needs Python code which its trace does not hold.

    `to` is the verb for what the user wants: `fork`.
    """
    if recording.needs_loop:
        start = "simloop step FILE --loop MODULE:ATTRIBUTE"
        why = f"this run cannot be repeated without its code: {recording.unknown}"
        raise ScenarioError(f"To {to}, start with: {start}. Reason: {why}")
    if recording.scenario is None or recording.unknown:
        why = recording.unknown or "its scenario cannot be read"
        raise ScenarioError(f"this run cannot be repeated: {why}")


def scenario_of(tree: Draft) -> Scenario:
    """Return the scenario that a tree describes. Raises ScenarioError if it describes none."""
    try:
        return Scenario.model_validate(tree, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ScenarioError(f"the changed scenario is invalid: {first['msg']}", key=place) from None


def next_reply(position: Position) -> int:
    """Return the number of the reply that comes next, counted from 0.

    The reply to a request at the cursor comes next as long as none of its parts has come.
    """
    steps = position.recording.index.landmarks[Landmark.STEP]
    sent = bisect_right(steps, position.place)
    place = position.request_place
    if place is not None and position.reply is not None and not position.reply.parts:
        is_open = place in position.recording.index.open_at(position.place)
        return sent - 1 if is_open else sent
    return sent


def request_of(position: Position, reply: int) -> int:
    """Return the number of the main request that a reply, counted from 0, answers.

    The request after the last one of the run has the next number.
    """
    sent = position.recording.requests
    main = [number for number, each in sent.items() if is_of_model(each)]
    return main[reply] if reply < len(main) else max(sent, default=0) + 1


def is_of_model(request: Request) -> bool:
    """Return whether `model` of the scenario answers a request, and no party and no summary."""
    return request.purpose == "main" and not request.party


def unrolled(recording: RecordedRun, tree: Draft) -> list[Draft]:
    """Return the replies in the order in which the run used them, then those that it left.

    So a reply can be put before one of them, whichever rule or repetition chose it.
    """
    replies: list[Draft] = list(tree.get("model", []))
    used = list(used_replies(recording, replies).values())
    return [_once(replies[place]) for place in used] + list(_left(replies, used))


def used_replies(recording: RecordedRun, replies: Sequence[Draft]) -> dict[int, int]:
    """Return the place of the reply that each main request got, by the number of the request."""
    script = Script("model")
    script.add(script_of(scenario_of({"prompt": "-", "model": replies}))[0])
    used: dict[int, int] = {}
    for request in recording.requests.values():
        if is_of_model(request):
            try:
                position = script.choose(request).position
            except SimloopError:  # the script was too short for the run
                break
            used[request.number] = int(position.rpartition(".")[2])
    return used


def _once(reply: Draft) -> Draft:
    return {key: value for key, value in reply.items() if key not in {"times", "when"}}


def _left(replies: Sequence[Draft], used: Sequence[int]) -> Iterator[Draft]:
    newest = max((place for place in used if "when" not in replies[place]), default=-1)
    for place, reply in enumerate(replies):
        times = reply.get("times", 1)
        if "when" in reply or place < newest:
            continue
        if times == "always":
            yield reply
        elif times > used.count(place):
            yield {**_once(reply), "times": times - used.count(place)}


# ---------------------------------------------------------------------- opening and shrinking


def opened(named: str, given: RunOptions | None = None) -> Session:
    """Return the session of a trace, of a scenario file or of a bundled scenario."""
    return Session(opened_run(named, **(given or {})), named)


def opened_pair(one: str, other: str, given: RunOptions) -> SideBySide:
    """Return the comparison of two runs."""
    return SideBySide(opened(one, given), opened(other, given))


def opened_against(named: str, loop: str, given: RunOptions) -> SideBySide:
    """Return the comparison of a run with the same scenario on another loop.

    The options of the loop, and the expectations, are for the first loop alone.
    """
    one = opened(named, given)
    check_repeatable(one.recording, "compare")
    assert one.recording.scenario is not None
    options: RunOptions = {"seed": one.recording.trace.header.seed, "loop": loop}
    recording, error = run_to_its_end(one.recording.scenario, options)
    if not recording.entries:
        raise ScenarioError(f"the loop `{loop}` has left no entry", path=named)
    name = f"{named} on {loop}"
    notice = f"the right run did not end: {error}" if error else ""
    return SideBySide(one, Session(recording, name, f"{named} on the loop {loop}."), notice)


def run_to_its_end(scenario: Scenario, options: RunOptions) -> tuple[RecordedRun, str]:
    """Run a scenario, and return the run with the error that ended it, or an empty text."""
    waits = Waits()
    verdict = trial(Plan(scenario, options), UNJUDGED, watch=waits.watch)
    if verdict.run is None or isinstance(verdict.worst, InternalError):
        raise verdict.worst or InternalError("there was no run")
    made = RecordedRun.of_run(verdict.run, verdict.run.trace, options)
    made.waits = waits
    return made, str(verdict.worst or "")


_SECONDS = 60.0  # longer than for a command: the user sees the progress, and can stop it


def shrunk(session: Session, say: Callable[[str], None], stopped: Callable[[], bool]) -> Session:
    """Return the session of the smallest run that fails as this one.

    `say` is called with the progress in words. Raises ScenarioError for a run that does not fail,
    or that cannot be repeated.
    """
    # Hypothesis and the search need not be imported before somebody shrinks a run.
    from simloop.fuzz.shrink import shrink  # noqa: PLC0415

    recording = session.recording
    check_repeatable(recording, "shrink")
    assert recording.scenario is not None
    found = shrink(
        recording.scenario,
        recording.options,
        seconds=_SECONDS,
        say=lambda now: say(f"{now.runs} runs: {now.replies} replies, {now.chars} characters"),
        stopped=stopped,
    )
    if found is None:
        raise ScenarioError("this run does not fail, so there is nothing to shrink")
    run, _ = run_to_its_end(found.scenario, {})
    failure = found.failure
    comment = f"Shrunk from {session.name}.\n{failure.name}: {failure.sentence}\n  {failure.text}"
    smallest = Session(run, f"{session.name}, shrunk", comment)
    left = f"; it may not be minimal: {found.unfinished}" if found.unfinished else ""
    smallest.said = f"{failure.name}, shrunk in {found.runs} runs{left}; O saves it"
    return smallest


# ---------------------------------------------------------------------- changes at the cursor


class Change(NamedTuple):
    """A change of a scenario: its name, as a menu shows it, and the function that makes it.

    `mends` says that it switches the fault at the cursor off.
    """

    name: str
    apply: Callable[[Draft], Draft]
    mends: bool = False


FAULTS_OF_MENU = tuple(fault for fault in FAULTS if fault.words)
"""The faults that can be inserted."""


def changes_at(position: Position) -> tuple[Change, ...]:
    """Return the changes that can be made at a position, in the order of a menu.

    The one that switches the fault at the cursor off, if there is one, is the first.
    Raises ScenarioError if the run cannot be repeated: its trace lacks Python code.
    """
    check_repeatable(position.recording, "fork")
    number = next_reply(position)
    request = request_of(position, number)
    found = [*_without_fault_here(position)]
    found += [
        Change(f"{fault.words} for request #{request}", _inserting(position, number, fault.reply))
        for fault in FAULTS_OF_MENU
    ]
    if _can_abort(position.recording):
        found.append(Change("the user aborts here", _aborting(position)))
    if number < len(unrolled(position.recording, content_of(position.recording))):
        found += [
            Change(
                f"the reply to request #{request} comes {seconds} s later",
                _delaying(position, number, seconds),
            )
            for seconds in (1, 60, 600)
        ]
    found += _without_chance(position)
    return tuple(found)


def _inserting(position: Position, number: int, reply: Draft) -> Callable[[Draft], Draft]:
    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        return {**tree, "model": [*script[:number], reply, *script[number:]]}

    return apply


def _delaying(position: Position, number: int, seconds: int) -> Callable[[Draft], Draft]:
    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        pace = {**script[number].get("pace", {}), "first_part": f"{seconds}s"}
        script[number] = {**script[number], "pace": pace}
        return {**tree, "model": script}

    return apply


def _can_abort(recording: RecordedRun) -> bool:
    machine = recording.machine
    return machine is None or Feature.ABORT not in machine.unsupported


def _aborting(position: Position) -> Callable[[Draft], Draft]:
    """Return the change that aborts the run at the cursor.

    It comes after the newest entry of this instant that a trigger can name, or at its time.
    """
    trigger: Draft = {"at": f"{position.at_ns}ns"}
    for place in range(position.place, position.start, -1):
        entry = position.recording.entries[place]
        if entry.at_ns != position.at_ns:
            break
        kind = kind_of(entry)
        if kind in TRIGGERS:
            same = position.recording.index.places[type(entry)]
            trigger = {"after": kind, "nth": bisect_right(same, place)}
            break
    return lambda tree: {**tree, "abort": trigger}


def _without_fault_here(position: Position) -> Iterator[Change]:
    entry = position.entry
    match entry:
        case entries.Error() | entries.StreamCut():
            number = _reply_of(position, entry.request)
            if number is not None:
                words = f"request #{entry.request} does not fail"
                yield Change(words, _mending(position, number), mends=True)
        case entries.ToolResult(is_error=True, name=name):
            words = f"the tool {name} does not fail"
            yield Change(words, lambda tree: _tool_mended(tree, name), mends=True)
        case entries.Hook(hook=name, result=result) if result in {"failed", "timed-out", "blocked"}:
            words = f"the hook {name} is left out"
            yield Change(words, lambda tree: _hook_left_out(tree, name), mends=True)
        case entries.StopRequested():
            yield Change("the user does not abort", _not_stopped, mends=True)


def _without_chance(position: Position) -> Iterator[Change]:
    if position.recording.scenario is not None and position.recording.scenario.faults is not None:
        yield Change("no faults of chance", lambda tree: _without(tree, "faults"))


def _reply_of(position: Position, request: int) -> int | None:
    sent = position.recording.requests
    main = [number for number, each in sent.items() if is_of_model(each)]
    return main.index(request) if request in main else None


def _mending(position: Position, number: int) -> Callable[[Draft], Draft]:
    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        mended = {key: value for key, value in script[number].items() if key not in FAILURES}
        kept = [mended] if mended.keys() - {"pace"} else []
        return {**tree, "model": [*script[:number], *kept, *script[number + 1 :]]}

    return apply


def _tool_mended(tree: Draft, name: str) -> Draft:
    tools = dict(tree.get("tools", {}))
    given = tools.get(name, {})
    tool = {key: value for key, value in given.items() if key not in TOOL_ENDS}
    return {**tree, "tools": {**tools, name: {**_without(tool, "takes"), "returns": "done"}}}


def _hook_left_out(tree: Draft, name: str) -> Draft:
    hooks = [hook for hook in tree.get("hooks", []) if _name_of(hook) != name]
    return {**tree, "hooks": hooks}


def _name_of(hook: Draft) -> str:
    return str(hook.get("name") or hook.get("at"))


def _not_stopped(tree: Draft) -> Draft:
    limits = {k: v for k, v in tree.get("limits", {}).items() if k != "max_wall_clock"}
    return {**_without(tree, "abort"), "limits": limits}


def _without(tree: Draft, key: str) -> Draft:
    return {name: value for name, value in tree.items() if name != key}


# ---------------------------------------------------------------------- forks


class Fork(NamedTuple):
    """The run of a changed scenario.

    `differs` is the first entry that differs from the run that was forked, or None if the change
    has no effect. `error` is the error that ended the run, such as a script that is too short now.
    """

    change: str
    place: int
    run: RecordedRun
    differs: int | None
    error: str

    @property
    def is_clean(self) -> bool:
        """Return whether both runs are equal before the cursor."""
        return self.differs is None or self.differs >= self.place


def reply_text(position: Position) -> str:
    """Return the next reply of the script as YAML, for an editor; a new reply if there is none."""
    script = unrolled(position.recording, content_of(position.recording))
    number = next_reply(position)
    reply = script[number] if number < len(script) else {"say": "Done."}
    text = scenario_text(scenario_of({"prompt": "-", "model": [reply]}))
    return text.partition("model:\n")[2]


def edit_of_reply(position: Position, text: str) -> Change:
    """Return the change that puts a reply, given as YAML, in the place of the next one.

    Raises ScenarioError, with the line in the text, if it is no list of replies.
    """
    replies = _replies(text)
    number = next_reply(position)

    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        return {**tree, "model": [*script[:number], *replies, *script[number + 1 :]]}

    words = f"the reply to request #{request_of(position, number)} is edited"
    return Change(words, apply)


def _replies(text: str) -> list[Draft]:
    try:
        tree = content(parse_scenario(_ABOVE + text, "reply"))
    except ScenarioError as error:
        for each in (error, *error.others):
            each.line = each.line and max(each.line - _ABOVE.count("\n"), 1)
        raise
    others = tree.keys() - {"prompt", "model"}
    if others:
        hint = "write replies alone, each as an indented item of a list"
        raise ScenarioError("this is no reply", path="reply", key=min(others), hint=hint)
    return list(tree.get("model", []))


_ABOVE = "prompt: '-'\nmodel:\n"
"""The lines that make a list of replies a scenario."""


def fork(position: Position, change: Change) -> Fork:
    """Run the changed scenario. Raises ScenarioError if it is no scenario for the loop."""
    recording = position.recording
    check_repeatable(recording, "fork")
    tree = change.apply(content_of(recording))
    scenario = scenario_of({**tree, "title": _title(recording, change)})
    run, error = run_to_its_end(scenario, recording.options)
    run.unmet = ()  # nobody has said how a changed run is to end
    return Fork(change.name, position.place, run, _first(recording, run), error)


def summary_of(made: Fork) -> str:
    """Return in words what is to know about a fork; empty if it went as expected."""
    found = []
    if made.differs is None:
        found.append("the change has no effect")
    elif not made.is_clean:
        found.append(f"the fork already differs at entry {made.differs}, before the cursor")
    if made.error:
        found.append(f"the fork did not end: {made.error}")
    return "; ".join(found)


def compared(position: Position, change: Change, source: str) -> SideBySide:
    """Run the changed scenario, and return the comparison of both branches.

    `source` is the name of the run that is forked. Raises ScenarioError as `fork` does.
    """
    made = fork(position, change)
    name = f"a fork of {source} at entry {made.place}"
    branch = Session(made.run, name, comment_of(made, source))
    return SideBySide(Session(position.recording, source), branch, summary_of(made))


def comment_of(made: Fork, source: str) -> str:
    """Return the comment of a fork's scenario file."""
    return f"A fork of {source} at entry {made.place}: {made.change}."


def _first(one: RecordedRun, other: RecordedRun) -> int | None:
    found = first_difference(one.trace, other.trace)
    if found is None:
        return None
    return len(one.entries) if found.seq is None else found.seq


def _title(recording: RecordedRun, change: Change) -> str:
    title = recording.trace.header.title or "a run"
    if title.startswith(_FORK_OF) and title.endswith(")"):
        return f"{title[:-1]}; {change.name})"
    return f"{_FORK_OF}{title} ({change.name})"


_FORK_OF = "Fork of: "
