"""Triggers: the time or the entry of the trace at which the user acts during a run."""

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from simloop.scenario.fields import Strict, WrittenDurationOrNone, kept
from simloop.trace.kinds import TRIGGERS

if TYPE_CHECKING:
    Point: TypeAlias = str
else:  # the schema, and the message about another name, have the names of the table
    Point = Literal[TRIGGERS]


class Trigger(Strict):
    """The trigger of an event in a run: a time, or an entry of the trace.

    The key is `after` and not `on`, because YAML 1.1 tools read `on` as a boolean.
    """

    at: WrittenDurationOrNone = Field(
        default=kept(None), description="Virtual time after the start of the first run."
    )
    after: Point | Literal["part"] | None = Field(
        default=None,
        description="After the trace shows an entry of this kind; part is any part of the model's "
        "stream.",
    )
    nth: int = Field(default=1, ge=1, description="After the n-th such entry, not the first.")

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if (self.at is None) == (self.after is None):
            raise ValueError("give either at (a time) or after (a kind of entry)")
        return self


class Queued(Trigger):
    """A message that the user sends during the run."""

    say: str = Field(description="The text of the message.")
    follow_up: bool = Field(
        default=False,
        description="Keep the message until the run would otherwise end. Only pi has a queue for "
        "such messages: reference and opencode take them at once, react takes all after the run.",
    )
