"""The values that a hook changed, before and after it.

Not here: which hooks have run (position.py) and their words (views.py). The rule to keep: a value
is given only if the trace has it, and if it certainly belongs to this hook. Of several hooks that
change one value, the first has the value before it, and the last has the value after it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from simloop.cursor.index import Landmark
from simloop.cursor.position import CallState, Position
from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_LLM_CALL, BEFORE_TOOL_CALL
from simloop.messages import Request
from simloop.trace import entries


class HookChange(NamedTuple):
    """A change of the value `name`; None stands for a value that is unknown for this hook."""

    name: str
    before: str | None
    after: str | None


def hook_changes(position: Position, hook: entries.Hook) -> Iterator[HookChange]:
    """Yield the changes of a hook of `position.hooks`, as far as their result is known by then."""
    values = _values(position, hook)
    for name in hook.changed:
        before, after = values.get(name, (None, None))
        if after is not None:
            beside = [each for each in position.hooks if _is_beside(position, each, hook, name)]
            yield HookChange(
                name,
                before if all(each.seq >= hook.seq for each in beside) else None,
                after if all(each.seq <= hook.seq for each in beside) else None,
            )


_Values = dict[str, tuple[str | None, str]]
"""By name, a value before all hooks of a point, and the value after them."""


def _values(position: Position, hook: entries.Hook) -> _Values:
    if hook.point == BEFORE_LLM_CALL:
        return _of_request(position, hook)
    call = _call_of(position, hook)
    if call is None:
        return {}
    if hook.point == BEFORE_TOOL_CALL and call.started is not None:
        called = None if call.called is None else call.called.arguments
        return {"arguments": (called, call.started.arguments)}
    if hook.point == AFTER_TOOL_CALL and call.returned is not None and call.answered is not None:
        return {"result": (call.returned.text, call.answered.text)}
    return {}


def _is_beside(position: Position, other: entries.Hook, hook: entries.Hook, name: str) -> bool:
    """Return whether another hook changes the value too: of the same request, or the same call."""
    if other.point != hook.point or name not in other.changed:
        return False
    if hook.point == BEFORE_LLM_CALL:
        return True
    call, its_call = _call_of(position, hook), _call_of(position, other)
    return its_call is None or call is None or its_call.call_id == call.call_id


# ---------------------------------------------------------------------- the request


def _of_request(position: Position, hook: entries.Hook) -> _Values:
    """Return the values of the request that was sent after the hook, if it was."""
    recording = position.recording
    sent = recording.index.next(Landmark.STEP, hook.seq)
    if sent is None or sent > position.place:
        return {}
    entry = recording.entries[sent]
    assert isinstance(entry, entries.Request)
    request = recording.requests[entry.number]
    settings = recording.settings
    prompt = None if settings is None else settings.system_prompt
    return {
        "system_prompt": (prompt, request.system_prompt),
        "tools": (_tools_before(position), _names(request)),
    }


def _tools_before(position: Position) -> str | None:
    """Return the tools of the run; None at the last step, at which a loop may withhold them."""
    for counter in position.counters:
        is_last = counter.limit is not None and counter.value + 1 >= counter.limit
        if counter.name == "total_steps" and is_last:
            return None
    offered = position.recording.tools
    return None if offered is None else ", ".join(offered) or "none"


def _names(request: Request) -> str:
    return ", ".join(tool.name for tool in request.tools) or "none"


# ---------------------------------------------------------------------- the call


def _call_of(position: Position, hook: entries.Hook) -> CallState | None:
    """Return the call that the hook ran for: the only one that was then at this point, or None.

    After a stop, a hook may also run for a call that has left no entry.
    """
    stopped = position.newest(entries.StopRequested)
    if stopped is not None and stopped.seq < hook.seq:
        return None
    at_point = _is_begun if hook.point == BEFORE_TOOL_CALL else _is_returned
    found = [call for call in position.calls if at_point(call, hook.seq)]
    return found[0] if len(found) == 1 else None


def _is_begun(call: CallState, place: int) -> bool:
    begun = call.begun is not None and call.begun.seq < place
    return begun and not _is_past(call.started, place) and not _is_past(call.answered, place)


def _is_returned(call: CallState, place: int) -> bool:
    return _is_past(call.returned, place) and not _is_past(call.answered, place)


def _is_past(
    entry: entries.ToolStarted | entries.ToolResult | entries.Answered | None, place: int
) -> bool:
    return entry is not None and entry.seq < place
