"""The user of a scenario, as people write it: further prompts, and lines of standard input."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from simloop.escape import writable
from simloop.scenario import fields
from simloop.scenario.expect import Contains, Either, Form, Plain
from simloop.scenario.fields import NO_TIME, Strict, kept, wrong
from simloop.scenario.mistakes import LIST, PLAIN
from simloop.world.user_port import TypedLine


class Then(Strict):
    """A further prompt, some time after the outcome before it."""

    say: fields.Text
    """The text of the prompt."""
    after: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time after the outcome before it."""
    restart: bool = False
    """Restart the agent before the prompt: what it left running ends, and a fresh instance answers,
    which knows only what the agent has stored."""


class Line(Strict):
    """A line that the user types on standard input."""

    say: str
    """The text of the line."""
    after: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time after the program asks: it waits for a line, and has read those before."""
    to: fields.OneOrNone[Contains] = kept(None)
    """Makes it an answer: type it if what the program has written since the line before has
    this."""
    times: Annotated[int, Field(ge=1)] | Literal["always"] = 1
    """How often it may be typed."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if "\n" in self.say or "\r" in self.say:
            raise wrong("say", "a line has no line break: write a line for each")
        return self


Prompts = fields.Written[
    fields.Lax[list[Either[Plain[str] | Form[fields.Lax[Then]]]]],
    Sequence[str | Then | Mapping[str, Any]],
]
_Lines = Annotated[fields.Lax[list[Either[Plain[str] | Form[fields.Lax[Line]]]]], Tag(LIST)]
_IS_TEXT = Discriminator(lambda value: PLAIN if isinstance(value, str) else LIST)
Input = fields.Written[
    Annotated[Plain[str] | _Lines, _IS_TEXT] | None,
    str | Sequence[str | Line | Mapping[str, Any]] | None,
]
"""The standard input: the text of a redirected file, or the lines that a user types."""


def typed_lines(lines: Sequence[str | Line], first: int = 0) -> Iterator[TypedLine]:
    """Yield the lines that a keyboard types; `first` is the number of the first in `input`."""
    for number, given in enumerate(lines, first):
        line = Line(say=given) if isinstance(given, str) else given
        yield TypedLine(
            writable(line.say), f"input.{number}", line.after,
            () if line.to is None else tuple(line.to.texts),
            None if line.times == "always" else line.times,
        )  # fmt: skip
