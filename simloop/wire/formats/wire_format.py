"""The values that a wire format reads and writes: requests, and the events of replies."""

from dataclasses import dataclass
from typing import NamedTuple

from simloop.messages import AssistantMessage, Message, StructuredOutput, ToolSpec, Usage


class WireEvent(NamedTuple):
    """One server-sent event: its name, which may be empty, and its data."""

    name: str
    data: str


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The contents of a request; `reports_usage`: a stream reports its token counts."""

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    streams: bool
    reports_usage: bool = True
    size_reply: str = ""  # to one for its size in tokens alone: the reply, with `%d` for them
    output: StructuredOutput | None = None


class Stamp(NamedTuple):
    """The number of a request, counted from 1, and the Unix time of its reply."""

    number: int
    created_s: int


class WireReply(NamedTuple):
    """The contents of a reply that a provider has sent. `finish` is empty if it says no reason."""

    message: AssistantMessage
    finish: str
    usage: Usage | None


class WrongRequest(Exception):  # noqa: N818 - an error of the client's code, answered with its status
    """A request that the provider would refuse: where in its body, and why."""

    def __init__(
        self, key: str, message: str, code: str = "", *, status: int = 400, is_limit: bool = False
    ) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message
        self.code = code  # the provider's, if it has one for the mistake
        self.status = status
        self.is_limit = is_limit  # a provider could take the request, and only the script cannot
