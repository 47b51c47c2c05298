"""The world of a scenario in one line, in the words of somebody who uses an SDK."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from simloop.kernel.durations import format_duration
from simloop.messages import json_value
from simloop.scenario.conversation import calls_of
from simloop.scenario.fields import Strict
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario, ScriptedTool, ToolAnswer

_CHARS = 400
_LONG, _CALLS = 1_000, 4
_PLACES = {
    "before-connect": "before it is made", "before-headers": "before an answer",
    "after-headers": "after the headers", "mid-output": "amid the reply",
}  # fmt: skip


def changes_in_words(scenario: Scenario, base: Scenario) -> str:
    """Return how a scenario varies `base`, such as a recording, whose requests are counted."""
    changes = list(_script(scenario.model, base.model))
    for name, party in scenario.models.items():
        known = base.models[name].replies if name in base.models else ()
        changes += [f"for {name}, {words}" for words in _script(party.replies, known)]
    for name, tool in scenario.tools.items():
        before = base.tools.get(name, ScriptedTool())
        pairs = enumerate(zip(tool.answers, before.answers, strict=False), 1)
        ends: list[tuple[str, ScriptedTool | ToolAnswer]] = [
            (f"call {n} of {name}", one) for n, (one, other) in pairs if one != other
        ]
        ends += [(name, tool)] if _tool(tool) != _tool(before) else []
        changes += [f"{what} {_tool(each) or 'returns something else'}" for what, each in ends]
    usual = {*_others(base), *_user(base)}
    changes += [each for each in (*_others(scenario), *_user(scenario)) if each not in usual]
    return _short("; ".join(changes))


def _script(replies: Sequence[Reply], known: Sequence[Reply]) -> Iterator[str]:
    before, now = ([each.model_dump_json(exclude_defaults=True) for each in part]
                   for part in (known, replies))  # fmt: skip
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    for what, first, end, start, stop in matcher.get_opcodes():
        for place, reply in enumerate(replies[start:stop], first) if what != "equal" else ():
            at = min(place, max(first, end - 1))
            change = _change(reply, known[at] if at < len(known) else None)
            if reply.when or change:
                yield from _reply(reply) if reply.when else [f"request {at + 1}{change}"]
        if (kept := first + stop - start) < end:
            yield f"without request{f's {kept + 1} to' if end - kept > 1 else ''} {end}"


def _change(reply: Reply, asked: Reply | None) -> str:
    is_same = asked is not None and (reply.say, reply.call) == (asked.say, asked.call)
    if is_same and reply.lost == "mid-output":
        return " is cut in the middle"
    words = (_end(reply) if is_same else "") or ", ".join(_reply(reply))
    return f": {words}" if words else ""


def world_in_words(scenario: Scenario) -> str:
    """Return what happens in a scenario, in the order of its script."""
    events = [words for reply in scenario.model for words in _reply(reply)]
    for name, party in scenario.models.items():
        events += [f"for {name}: {words}" for reply in party.replies for words in _reply(reply)]
    sides = [f"{name} {words}" for name, tool in scenario.tools.items() if (words := _tool(tool))]
    sides += [*_others(scenario), *_user(scenario)]
    return _short("; ".join([", then ".join(events), *sides] if events else sides))


def _short(line: str) -> str:
    return line if len(line) <= _CHARS else f"{line[:_CHARS]}..."


def _reply(reply: Reply) -> Iterator[str]:
    if reply.times == "always" and not (reply.call or _end(reply)):
        return
    often = {None: "", 1: "", "always": " each time"}.get(reply.times, f" {reply.times} times")
    late = f" after {format_duration(reply.pace.first_part)}" if reply.pace.first_part else ""
    slow = f", {format_duration(reply.pace.per_part)} a part" if reply.pace.per_part else ""
    words = " and ".join(filter(None, [_said(reply), _end(reply)])) or "the model says nothing"
    where = "to requests without tools " if reply.when and reply.when.tools == [] else ""
    yield f"{where}{words}{often}{late}{slow}"


def _said(reply: Reply) -> str:
    calls = [_call(*each) for each in calls_of(reply.call)]
    calls += [f"{name} with half of its arguments" for name in reply.half_call]
    said = "".join(reply.say)
    many = f"{len(said):,} characters" if len(said) > _LONG else ""
    if calls:
        more = f" and {len(calls) - _CALLS} more" if len(calls) > _CALLS else ""
        says = f"says {many} and " if many else ""
        return f"the model {says}calls {', '.join(calls[:_CALLS])}{more}"
    if said:
        text = said[:60] if "{" in said[:60] else many or "a text"  # an object, or nearly one
        return f"the model says {text if said.strip() else 'only blanks'}"
    return "the model only thinks" if reply.think else ""


def _call(name: str, arguments: str) -> str:
    if not isinstance(json_value(arguments), dict):
        return f"{name} with the arguments {arguments[:20]!r}, which are no JSON object"
    return f"{name}({arguments[:60]}{'...' * (len(arguments) > 60)})"  # noqa: PLR2004 - a width


def _end(reply: Reply) -> str:
    if (http := reply.http) is not None:
        wait = http.retry_after
        asked = [] if wait is None else [f"Retry-After {format_duration(wait)}"]
        asked += [f"{key} {value}" for key, value in http.headers.items()]
        body = http.body if isinstance(http.body, str) else http.body and json.dumps(http.body)
        said = http.code or http.message or body or ""
        words = [f"with {', '.join(asked)}"] if asked else []
        words += [f"({said[:60]})"] if said else []
        return " ".join([f"the provider answers {http.status}", *words])
    if reply.lost or reply.stall:
        what = "the connection is lost" if reply.lost else "nothing more comes"
        return f"{what} {_PLACES[reply.lost or reply.stall or '']}"
    if reply.error is not None:
        return f"the stream carries the error {reply.error.code or reply.error.message!r}"
    if reply.unfinished:
        return "the stream ends without a finish reason"
    if reply.raises is not None:
        return "the client's code raises an exception"
    return f"the reply ends with `{reply.finish}`" if reply.finish else ""


def _tool(tool: ScriptedTool | ToolAnswer) -> str:
    words = [f"takes {format_duration(tool.takes)}"] if tool.takes else []
    words += ["fails"] if tool.raises is not None else []
    if isinstance(tool, ToolAnswer):
        return " and ".join(words)
    words += ["never returns"] if tool.hangs else []
    words += ["is cancelled by itself"] if tool.cancels else []
    words += [f"returns {tool.returns_chars:,} characters"] if tool.returns_chars else []
    return " and ".join(words)


def _others(scenario: Scenario) -> Iterator[str]:
    given: dict[str, Any] = {**scenario.services, **scenario.programs}
    for name, answers in given.items():
        for each in answers if isinstance(answers, list) else [answers]:
            if isinstance(each, Strict) and (words := _answer(each)):  # and not `files`
                yield f"{name} {words}"


def _answer(answer: Any) -> str:
    found = answer.model_dump(exclude_defaults=True)
    words = [f"answers {found['status']}"] if found.get("status", 200) >= 400 else []  # noqa: PLR2004
    words += ["loses the connection"] if found.get("lost") else []
    words += ["does not answer"] if found.get("stall") or found.get("hangs") else []
    words += [f"takes {format_duration(answer.takes)}"] if found.get("takes") else []
    words += [f"exits with {found['exit']}"] if found.get("exit") else []
    words += [f"dies by {found['signal']}"] if found.get("signal") else []
    return " and ".join(words)


def _user(scenario: Scenario) -> Iterator[str]:
    if (abort := scenario.abort) is not None:
        yield f"the user stops the run {_when(abort)}"
    yield from (f"the user sends a message {_when(queued)}" for queued in scenario.queue)
    if scenario.input == []:
        yield "the user types nothing"
    for line in scenario.input if isinstance(scenario.input, list) else ():
        said, late = (line, 0) if isinstance(line, str) else (line.say, line.after)
        if late or said != "y":
            yield f"the user types {said[:40]!r}{f' after {format_duration(late)}' * bool(late)}"
    for prompt in scenario.then:
        yield f"the user asks again: {str(getattr(prompt, 'say', prompt))[:40]}"


def _when(trigger: Any) -> str:
    if trigger.after is None:
        return f"after {format_duration(trigger.at)}"
    return f"after the entry {trigger.after}{f' {trigger.nth}' if trigger.nth > 1 else ''}"
