"""The differences of the real program's versions from document 004, as options of the loop.

The rule to keep: the defaults are the document; an option says in which versions it is so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from simloop.kernel.checked import AS_WRITTEN, Word, check_settings
from simloop.kernel.durations import Lasting, Milliseconds
from simloop.kernel.machine import deviating
from simloop.kernel.replies import KeepFailed
from simloop.loops.opencode_overflows import OverflowWords


class Steps(Word):
    """The behaviour of a run that has reached `max_steps`."""

    ADVISE = "advise"  # each further request ends with a note, and keeps its tools: the document
    ENFORCE = "enforce"  # the last step has the note and no tools, and the run ends after it
    UNLIMITED = "unlimited"  # nothing happens: the real program, unless it is configured


_ALWAYS = {
    "bounded-model-calls": "nothing bounds the steps, or the retries of all steps",
    "max-steps-per-round-enforced": "the loop counts each reply as one step",
    "cut-off-replies-force-compaction": "a reply that was cut off ends the run",
    "no-request-after-an-answer": (
        "after an answer that fills the context, the loop compacts it and continues"
    ),
    "max-compaction-attempts-enforced": "only the limit of steps bounds the compactions",
    "useless-replies-count-as-errors": (
        "the loop sends a further request after an unknown finish reason"
    ),
    "last-message-role": "a note at the step limit, or an unfinished reply, is the last message",
    "no-tools-for-incomplete-replies": "the loop runs the calls of a reply with any finish reason",
    "no-tools-for-failed-replies": "the loop runs the calls of a reply with any finish reason",
    "broken-replies-end-runs": "the loop continues after some replies with such a finish reason",
    "newest-user-message-sent": (
        "the summary of a forced compaction replaces a prompt that is the only message"
    ),
    "no-incomplete-replies-in-context": (
        "the loop continues after a reply without a finish reason, and keeps its text"
    ),
    "completed-after-a-complete-reply": "every known finish reason ends the run",
}
"""The invariants that the loop breaks by design with all options, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeOptions:
    """The options of the opencode loop."""

    __pydantic_config__: ClassVar = AS_WRITTEN

    max_retries: Annotated[int, Ge(0)] | None = 5
    """How often a failed call is tried again; null for ever (1.0 to 1.2).
    For ever, `error_count` counts no further than 32."""
    first_delay_ms: Annotated[int, Lasting(0)] = Milliseconds(1_000)
    """Milliseconds before the first retry, then doubled; 2000 in all versions. `retry` beats it."""
    by_status: bool = False
    """Retry 408, 409, 429 and every status from 500 on, whatever the code; never an error frame.
    Retry-After counts as it is, zero and less retry at once, and an answer's delay has no cap (all
    versions). A `retry` of the scenario takes the place of this and of the next three."""
    retry_by_words: bool = False
    """With `by_status`: retry an error also if its words say that it may pass (1.18.33)."""
    overflow_by_code: bool = False
    """With `by_status`: an HTTP error whose code says so is an overflow (1.18.33)."""
    overflow_words: OverflowWords = OverflowWords.ALL
    """With `by_status`: the phrases of an overflow, by default of all providers (1.2.27, 1.18.33,
    each with its own list)."""
    steps: Steps = Steps.ADVISE
    """Whether `max_steps` adds a note to each further request, ends the run, or does nothing. The
    design only adds the note; `enforce` is an addition of simloop."""
    compact_without_progress: bool = False
    """A compaction that gains nothing does not end the run (all versions)."""
    compact_on_overflow: bool = False
    """A context overflow is answered by a compaction, and a 413 is one (1.2.27, 1.18.33)."""
    compatible_words: bool = False
    """Only the finish words of an OpenAI-compatible provider are known, as spelled: `STOP` and
    `max_tokens` are not (all versions)."""
    network_error_fails: bool = False
    """The finish word `network_error` is a failure that is retried (1.18.33)."""
    lower_case_names: bool = False
    """A tool that is not offered is also found by its name in lower case (all versions)."""
    keep_failed: KeepFailed = KeepFailed.NOTHING
    """What a reply that breaks off leaves in the context when a retry has succeeded: `text` with
    its calls (1.1.11), `calls` under an empty message (1.2.27, 1.18.33)."""
    calls_go_on: bool = False
    """A reply with calls goes on, whatever its finish (1.18.33)."""
    filter_fails: bool = False
    """A content filter is an error (1.18.33)."""
    parallel: bool = False
    """Run the calls of a reply at once (all versions)."""
    abort_at_once: bool = False
    """An abort is seen wherever the run waits, and no call is made after it (1.18.33)."""
    idle_twice: bool = False
    """The events of a run that ends with an error end with idle, idle (1.2.27, 1.18.33)."""

    def __post_init__(self) -> None:
        """Refuse what a file could not say either: see `check_settings`."""
        check_settings(self, "loops.opencode")

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        late = not self.abort_at_once
        useless = "a compaction that gains nothing does not end the run"
        return _ALWAYS | deviating(
            (
                not self.compact_on_overflow,
                "overflows-force-compaction",
                "a request that is too long ends the run",
            ),
            (self.compact_without_progress, "useless-forced-compaction-ends-run", useless),
            (self.compact_without_progress, "useless-unlimited-compaction-ends-run", useless),
            (
                late,
                "nothing-starts-after-stop",
                "the loop looks for an abort only before the next step",
            ),
            (late, "outcome-matches-stop", "a run may end before the loop notices the abort"),
            (
                late,
                "stopped-run-ends-in-time",
                "the loop notices an abort after the reply, the tools or the backoff",
            ),
            (
                self.keep_failed is KeepFailed.CALLS,
                "replies-with-calls-kept",
                "a failed reply stays in the context without its text",
            ),
            (
                self.keep_failed is KeepFailed.CALLS,
                "no-empty-replies-sent",
                "a failed reply without calls stays in the context without its text",
            ),
            (
                not self.calls_go_on,
                "completed-without-open-calls",
                "a reply with calls and the finish reason `stop` ends the run",
            ),
        )


_1_1_11 = OpencodeOptions(
    first_delay_ms=2_000,
    max_retries=None,
    by_status=True,
    compatible_words=True,
    lower_case_names=True,
    keep_failed=KeepFailed.TEXT,
    steps=Steps.UNLIMITED,
    compact_without_progress=True,
    parallel=True,
)
_1_2_27 = replace(
    _1_1_11,
    compact_on_overflow=True,
    overflow_words=OverflowWords.OF_1_2_27,
    keep_failed=KeepFailed.CALLS,
    idle_twice=True,
)
_1_18_33 = replace(
    _1_2_27,
    max_retries=5,
    retry_by_words=True,
    overflow_by_code=True,
    overflow_words=OverflowWords.OF_1_18_33,
    network_error_fails=True,
    calls_go_on=True,
    filter_fails=True,
    abort_at_once=True,
)
VERSIONS: Mapping[str, OpencodeOptions] = {
    "1.1.11": _1_1_11,
    "1.2.27": _1_2_27,
    "1.18.33": _1_18_33,
}
"""The options that reproduce each version of opencode."""
