"""Invariants on the requests of the engine."""

from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import AssistantMessage
from simloop.trace.entries import Request


@invariant(
    "A reply without text and calls is in no request.",
    "BUGS.md A11, A15",
    sees=[Request],
    needs=[Need.MACHINE],
)
def no_empty_replies_sent(_: Subject, entry: Any) -> str:
    """Some providers refuse such a message; an agent may know that its own accepts it."""
    for message in entry.added:
        if type(message) is AssistantMessage and not (
            message.text or message.calls or message.reasoning
        ):
            return f"request {entry.number} has an empty reply of the model"
    return ""


@invariant(
    "The system prompt and the tools do not change between the requests of a run, unless "
    "hooks change them.",
    "loops.md",
    sees=[Request],
    needs=[Need.MACHINE],
)
def constant_system_prompt_and_tools(subject: Subject) -> Watch:
    """A loop may offer no tools at all, as some do in the last step."""
    facts, settings = subject.facts, subject.settings
    if settings is None or settings.hooks.before_llm_call:
        return ""
    tools = None
    while True:
        entry = yield
        request = facts.request
        if entry.purpose != "main" or request is None:
            continue
        if request.system_prompt != settings.system_prompt:
            return f"request {entry.number} has the system prompt {request.system_prompt!r:.80}"
        tools = tools or request.tools
        if request.tools and request.tools != tools:
            return f"request {entry.number} offers other tools than the requests before it"
