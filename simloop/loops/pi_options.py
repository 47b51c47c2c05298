"""The options of the loop of document 001, and the version of the real program as options.

The defaults are the document; an option names one difference between it and the real program.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from simloop.kernel.checks import Checked, Word
from simloop.kernel.machine import deviating
from simloop.kernel.policies import (
    Compaction,
    HookIsolation,
    OnHookFailure,
    Policies,
    SentBack,
    ToolExecution,
    ToolOrder,
    ToolRules,
)


class Delivery(Word):
    """The number of queued messages that are taken at a time."""

    ONE_AT_A_TIME = "one-at-a-time"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PiOptions(Checked, at="loops.pi"):
    """The options of the pi loop; the version 0.87.1 has those after the first two."""

    steering: Delivery = Delivery.ONE_AT_A_TIME
    """How many steering messages go with the next request."""
    follow_up: Delivery = Delivery.ONE_AT_A_TIME
    """How many follow-up messages are taken at the end of a run."""
    parallel: bool = False
    """Run the calls of a reply at once, as the real program does."""
    refuse_cut_calls: bool = False
    """Calls of a reply that ends with `length` are not executed."""
    call_after_abort: bool = False
    """After an abort no further tool begins, and one more model call comes back as aborted.
    Without: the run ends at once."""
    compacts: bool = True
    """Compact a context of more than 100 messages; the real program's loop has no compaction."""
    warns: bool = True
    """Report each model call after the fiftieth; the real program reports none."""
    resend_failed: bool = True
    """A reply that failed goes into later requests; in the real program only the transcript has
    it."""
    resend_thinking: bool = False
    """The model's reasoning goes into later requests."""
    convert_arguments: bool = False
    """Arguments of the wrong type are converted to the type of the schema, where that is clear."""
    check_changed: bool = True
    """Validate arguments again that a hook has changed; the real program does not."""
    hook_errors_answer: bool = False
    """A tool hook that raises gives its call an error result, and no hook times out."""
    terminate: bool = False
    """A run ends when every result of a reply asks for it with `terminate`."""

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        return deviating(
            (True, "bounded-model-calls", "a run continues while the model calls tools"),
            (True, "retryable-failures-retried", "the loop has no retry"),
            (True, "max-steps-per-round-enforced", "the loop counts no steps"),
            (
                True,
                "cut-off-replies-force-compaction",
                "the loop treats a reply that was cut off like any other reply",
            ),
            (True, "overflows-force-compaction", "a request that is too long ends the run"),
            (True, "no-empty-replies-sent", "the loop keeps each reply, also an empty one"),
            (True, "max-compaction-attempts-enforced", "nothing bounds the compactions of a run"),
            (
                True,
                "useless-unlimited-compaction-ends-run",
                "a context is compacted whether that helps or not",
            ),
            (
                not self.refuse_cut_calls,
                "no-tools-for-incomplete-replies",
                "the loop runs the calls of a reply that was cut off",
            ),
            (
                self.resend_failed,
                "no-incomplete-replies-in-context",
                "later requests contain a reply without a finish reason",
            ),
            (
                True,
                "completed-after-a-complete-reply",
                "every reply without calls completes the run, also if it was cut off",
            ),
            (
                self.terminate,
                "completed-without-open-calls",
                "tool results that request the end of the run complete it",
            ),
        )

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> Policies:
        """Return the policies that these options define; equal options share them."""
        return Policies(
            compaction=Compaction(max_messages=100),
            tool_execution=ToolExecution(
                order=ToolOrder.PARALLEL if self.parallel else ToolOrder.SEQUENTIAL
            ),
            tool_rules=ToolRules(
                convert=self.convert_arguments,
                check_changed=self.check_changed,
                results_fail=False,
            ),
            hook_isolation=_ANSWERING if self.hook_errors_answer else HookIsolation(),
            sent_back=SentBack(failed=self.resend_failed, reasoning=self.resend_thinking),
            abort_is_flag=self.call_after_abort,
            warn_after=50 if self.warns else None,
        )


_ANSWERING = HookIsolation(on_failure=OnHookFailure.ERROR_RESULT, timeout_ms=None)

VERSIONS: Mapping[str, PiOptions] = {
    "0.87.1": PiOptions(
        parallel=True,
        refuse_cut_calls=True,
        call_after_abort=True,
        compacts=False,
        warns=False,
        resend_failed=False,
        resend_thinking=True,
        convert_arguments=True,
        check_changed=False,
        hook_errors_answer=True,
        terminate=True,
    ),
}
"""The options that reproduce a version of pi-agent-core."""
