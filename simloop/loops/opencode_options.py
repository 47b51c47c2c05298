"""The differences of the real program from document 004, as options of the loop.

The defaults are the document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from simloop.kernel.checks import Checked, Word
from simloop.kernel.durations import Lasting, Milliseconds
from simloop.kernel.machine import deviating


class Steps(Word):
    """The behaviour of a run that has reached `max_steps`."""

    ADVISE = "advise"  # each further request ends with a note, and keeps its tools: the document
    ENFORCE = "enforce"  # the last step has the note and no tools, and the run ends after it
    UNLIMITED = "unlimited"  # nothing happens: the real program, unless it is configured


_ALWAYS = {
    "bounded-model-calls": "nothing bounds the steps",
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
class OpencodeOptions(Checked, at="loops.opencode"):
    """The options of the opencode loop."""

    max_retries: Annotated[int, Ge(0)] = 5
    """How often a failed call is tried again."""
    first_delay_ms: Annotated[int, Lasting(0)] = Milliseconds(1_000)
    """Milliseconds before the first retry, then doubled; 2000 in 1.18.34. `retry` beats it."""
    program_errors: bool = False
    """Errors are classified as in 1.18.34, by status, codes and words. Retry-After counts as it is:
    zero and less retry at once, and an answer's delay has no cap. `retry` beats it."""
    steps: Steps = Steps.ADVISE
    """Whether `max_steps` adds a note to each further request, ends the run, or does nothing
    (1.18.34). The design only adds the note; `enforce` is an addition of simloop."""
    compact_without_progress: bool = False
    """A compaction that gains nothing does not end the run (1.18.34)."""
    compact_on_overflow: bool = False
    """A context overflow is answered by a compaction (1.18.34)."""
    compatible_words: bool = False
    """Only the finish words of an OpenAI-compatible provider are known, as spelled: `STOP` and
    `max_tokens` are not, and `network_error` is a failure that is retried (1.18.34)."""
    lower_case_names: bool = False
    """A tool that is not offered is also found by its name in lower case (1.18.34)."""
    keep_failed: bool = False
    """A reply that breaks off leaves its calls in the context, under an empty message, when a retry
    has succeeded (1.18.34)."""
    keep_thoughts: bool = False
    """A reply with reasoning alone goes into later requests, as an empty message (1.18.34)."""
    calls_go_on: bool = False
    """A reply with calls goes on, whatever its finish (1.18.34)."""
    filter_fails: bool = False
    """A content filter is an error (1.18.34)."""
    parallel: bool = False
    """Run the calls of a reply at once (1.18.34)."""
    abort_at_once: bool = False
    """An abort is seen wherever the run waits, and no call is made after it (1.18.34)."""

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
                self.keep_failed,
                "replies-with-calls-kept",
                "a failed reply stays in the context without its text",
            ),
            (
                self.keep_failed or self.keep_thoughts,
                "no-empty-replies-sent",
                "a failed reply, or one with reasoning alone, stays in the context as an empty one",
            ),
            (
                not self.calls_go_on,
                "completed-without-open-calls",
                "a reply with calls and the finish reason `stop` ends the run",
            ),
        )


VERSIONS: Mapping[str, OpencodeOptions] = {
    "1.18.34": OpencodeOptions(
        first_delay_ms=2_000,
        program_errors=True,
        steps=Steps.UNLIMITED,
        compact_without_progress=True,
        compact_on_overflow=True,
        compatible_words=True,
        lower_case_names=True,
        keep_failed=True,
        keep_thoughts=True,
        calls_go_on=True,
        filter_fails=True,
        parallel=True,
        abort_at_once=True,
    ),
}
"""The options that reproduce a version of opencode."""
