"""The bounds of a run. A limit that is reached ends the run with an outcome that says so."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from simloop.kernel.checked import AS_WRITTEN, check_settings
from simloop.kernel.durations import Lasting, Milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a run.

    Raises ScenarioError for a value below its minimum.
    """

    __pydantic_config__: ClassVar = AS_WRITTEN

    max_steps: Annotated[int, Ge(1)] = 100
    """Steps of all replies together; tested with >= wherever the run would go on."""
    max_steps_per_round: Annotated[int, Ge(1)] = 20
    """Steps that one reply may report, beside the bound on the steps of all replies."""
    max_error_count: Annotated[int, Ge(1)] = 3
    """Failed or useless model calls; the last of them ends the run, so 3 means 2 retries."""
    max_compaction_attempts: Annotated[int, Ge(0)] = 2
    """Compactions tried, normal and forced together; 0 means never shorten the context."""
    max_wall_clock_ms: Annotated[int, Lasting(1)] | None = None
    """Virtual time for the whole run."""
    first_part_timeout_ms: Annotated[int, Lasting(1)] = Milliseconds(180_000)
    """Virtual time until the model's first part."""
    model_call_timeout_ms: Annotated[int, Lasting(1)] = Milliseconds(600_000)
    """Virtual time for one model call, stream included."""

    def __post_init__(self) -> None:
        """Refuse what a file could not say either: see `check_settings`."""
        check_settings(self, "limits")
