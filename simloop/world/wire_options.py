"""The choices of providers of one wire format; a default is that of the format's own provider."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from simloop.kernel.checks import Checked
from simloop.messages import Finish, Usage

FramingName = Literal["lf", "crlf", "bytes", "comments"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOptions(Checked, at="wire"):
    """How a provider writes its replies, where providers differ."""

    framing: FramingName = "lf"
    """How server-sent events are cut into lines and pieces. `crlf` ends lines so; `bytes` sends one
    byte at a time; `comments` sends a comment before each event."""
    chat_error: Literal["data", "event", "chunk"] = "data"
    """An error inside a stream of Chat Completions: `data` is OpenAI's event, which has nothing
    but the error; `event` is Groq's, which is named `error`; `chunk` is OpenRouter's chunk, which
    has the error beside its choices."""
    chat_usage: Literal["own-chunk", "finish-chunk"] = "own-chunk"
    """Where a stream of Chat Completions reports its usage: in a last chunk without choices, if
    the client asks for it, as OpenAI does; or in the chunk with the finish reason, always, as Groq
    and Mistral do."""
    unstated_usage: Literal["zero", "none"] = "zero"
    """What OpenAI's formats report for a reply whose script states no usage: counts of `zero`,
    because OpenAI always reports some; or `none`, as some gateways do."""
    chat_reasoning: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """The field of Chat Completions that holds reasoning: `reasoning_content` as DeepSeek names it,
    or `reasoning` as Groq and OpenRouter do. OpenAI itself sends none."""
    responses_error: Literal["flat", "nested", "failed"] = "flat"
    """An error inside a stream of Responses: `flat` is the event `error` as OpenAI documents it;
    `nested` has an object `error` inside; `failed` is the event `response.failed`."""
    pings: bool = True
    """Whether a stream of Anthropic Messages has a `ping` after its first content block starts."""
    rate_limit_requests: Annotated[int, Ge(0)] = 0
    """The limit of requests per minute that each reply reports in its headers; 0 reports none."""
    rate_limit_tokens: Annotated[int, Ge(0)] = 0
    """The limit of tokens per minute that each reply reports in its headers; 0 reports none."""

    def usage_of(self, finish: Finish) -> Usage | None:
        """Return the usage that OpenAI's formats report with `finish`, or None."""
        return finish.usage or (Usage() if self.unstated_usage == "zero" else None)
