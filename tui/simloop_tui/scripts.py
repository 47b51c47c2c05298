"""The script of a recorded run: its replies in the order in which the requests used them.

So a changed run uses the same ones up to the change.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pydantic import ValidationError

from simloop.cursor.index import Landmark
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.errors import ScenarioError, SimloopError
from simloop.runs.plan import script_of
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import content
from simloop.world.fake_model import Script

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
    main = [number for number, each in sent.items() if each.purpose == "main"]
    return main[reply] if reply < len(main) else max(sent, default=0) + 1


def unrolled(recording: RecordedRun, tree: Draft) -> list[Draft]:
    """Return the replies in the order in which the run used them, then those that it left.

    So a reply can be put before one of them, whichever rule or repetition chose it.
    """
    replies: list[Draft] = list(tree.get("model", []))
    used = list(used_replies(recording, replies).values())
    return [_once(replies[place]) for place in used] + list(_left(replies, used))


def used_replies(recording: RecordedRun, replies: Sequence[Draft]) -> dict[int, int]:
    """Return the place of the reply that each main request got, by the number of the request."""
    script = Script(script_of(scenario_of({"prompt": "-", "model": replies}))[0], "model")
    used: dict[int, int] = {}
    for request in recording.requests.values():
        if request.purpose == "main":
            try:
                position = script.choose(request).position
            except SimloopError:  # the script was too short for the run
                break
            used[request.number] = int(position.rpartition(".")[2])
    return used


def _once(reply: Draft) -> Draft:
    return {key: value for key, value in reply.items() if key not in {"times", "when"}}


def _left(replies: Sequence[Draft], used: Sequence[int]) -> Iterator[Draft]:
    """Yield the ordered replies, and their repetitions, that a run did not use."""
    newest = max((place for place in used if "when" not in replies[place]), default=-1)
    for place, reply in enumerate(replies):
        times = reply.get("times", 1)
        if "when" in reply or place < newest:
            continue
        if times == "always":
            yield reply
        elif times > used.count(place):
            yield {**_once(reply), "times": times - used.count(place)}
