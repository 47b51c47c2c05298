"""The mends of the reference loop, each as an option, and the loop as documents 000/002 print it.

Not here: what they do to a run (reference.py). The rule to keep: an option is on in the reference
loop and off in `reference@documented`; its docstring says what the documented loop does.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields

from simloop.kernel.checks import Checked
from simloop.kernel.machine import deviating
from simloop.kernel.policies import (
    HookIsolation,
    OnHookFailure,
    Policies,
    ToolExecution,
    ToolStart,
)
from simloop.kernel.retry import ExponentialBackoff, StatusRetry

_DEVIATIONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("drop_unused_text", "missing_calls_fail"),
        "last-message-role",
        "the context keeps text that was cut off, or that announced missing calls",
    ),
    (
        ("refuse_cut_calls",),
        "no-tools-for-incomplete-replies",
        "the loop runs the calls of a reply that was cut off",
    ),
    (
        ("refuse_cut_calls",),
        "no-tools-for-failed-replies",
        "the loop runs the calls of a reply with any finish reason",
    ),
    (
        ("abort_in_backoff",),
        "nothing-starts-after-stop",
        "the loop notices an abort in a backoff at the next model call",
    ),
    (
        ("abort_in_backoff",),
        "outcome-matches-stop",
        "a run may end before the loop notices an abort in a backoff",
    ),
    (
        ("abort_in_backoff", "isolate_hooks"),
        "stopped-run-ends-in-time",
        "the loop notices an abort only after the backoff",
    ),
    (
        ("keep_stopped_step",),
        "replies-with-calls-kept",
        "the context keeps no message of a stopped step",
    ),
    (
        ("calls_go_on",),
        "completed-without-open-calls",
        "a reply with calls and the finish reason `stop` ends the run",
    ),
    (
        ("unfinished_fails",),
        "no-incomplete-replies-in-context",
        "a stream without a finish reason completes the run, and its text is kept",
    ),
    (
        ("unfinished_fails",),
        "completed-after-a-reply",
        "a stream without a finish reason completes the run",
    ),
    (
        ("unfinished_fails",),
        "completed-after-a-complete-reply",
        "a finish reason for a lost provider completes the run",
    ),
    (
        ("report_early_end",),
        "message-matches-last-reply",
        "if the last reply has no text, the run ends with a text of the loop",
    ),
    (
        ("missing_calls_fail", "empty_reply_fails", "unfinished_fails"),
        "useless-replies-count-as-errors",
        "a useless reply ends the run, or leads to a further step",
    ),
    (
        ("overflow_compacts",),
        "overflows-force-compaction",
        "the loop treats an overflow like any other error",
    ),
    (
        ("count_tries",),
        "max-compaction-attempts-enforced",
        "the loop counts only compactions that make the context smaller",
    ),
    (
        ("bound_bursts",),
        "max-steps-per-round-enforced",
        "the loop does not bound the steps that one reply reports",
    ),
)
"""Options, an invariant that the loop breaks if one of them is off, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions(Checked, at="loops.reference"):
    """The fixes that the reference loop has: by default all of them."""

    calls_go_on: bool = True
    """A reply with calls goes on after `stop` and unknown finish reasons. Without: it ends the run,
    and the model never sees the results."""
    tools_after_reply: bool = True
    """Tools start when the reply has ended. Without: when their call arrives."""
    refuse_cut_calls: bool = True
    """The calls of a reply that was cut off, filtered or broken get error results. Without: they
    run."""
    missing_calls_fail: bool = True
    """`tool-calls` without calls is an error. Without: the loop goes on, up to `max_steps`."""
    empty_reply_fails: bool = True
    """A reply with neither text nor calls is an error. Without: it completes the run."""
    unfinished_fails: bool = True
    """A stream that ends without a finish is an error. Without: it completes the run."""
    drop_unused_text: bool = True
    """Text that was cut off, or that announced missing calls, is not kept. Without: it is, and the
    next request ends with an assistant message."""
    steps_bound_all: bool = True
    """`max_steps` is tested wherever the run would go on. Without: after `tool-calls` only."""
    bound_bursts: bool = True
    """`max_steps_per_round` bounds the steps of one reply, wherever the run would go on. Without:
    nothing does."""
    count_tries: bool = True
    """A compaction counts when it is tried. Without: when it helps."""
    overflow_compacts: bool = True
    """A context overflow forces a compaction. Without: it is an error like any other."""
    classify_errors: bool = True
    """Errors are retried by their class. Without: by the statuses 429, 500, 502 and 503."""
    honour_retry_after: bool = True
    """Retry-After sets the delay. Without: it is ignored."""
    abort_in_backoff: bool = True
    """An abort ends the wait before a retry. Without: the wait goes on to its end, and the next
    call comes back as aborted."""
    keep_stopped_step: bool = True
    """A step that is stopped stays in the context, with its calls answered. Without: nothing of it
    stays."""
    take_queue: bool = True
    """A message that the user queues is sent with the next request. Without: as the next prompt."""
    report_failed_tools: bool = True
    """`after_tool_call` hooks and `on_tool_result` receive failed calls. Without: they do not."""
    report_early_end: bool = True
    """The user gets a message that a run has ended early, and why. Without: the user gets the text
    of the last reply, if it has any. The documents print "fallback text"; their program takes it
    for that."""
    isolate_hooks: bool = True
    """A hook that fails is left out, and one that hangs is given up. Without: a failure ends the
    run, and nothing bounds a hook."""

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        return deviating(
            *(
                (not all(getattr(self, option) for option in options), invariant, reason)
                for options, invariant, reason in _DEVIATIONS
            )
        )

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> Policies:
        """Return the policies of the loop with these options; equal options share them."""
        start = ToolStart.AFTER_REPLY if self.tools_after_reply else ToolStart.WHEN_CALLED
        unbounded = HookIsolation(on_failure=OnHookFailure.FAIL_RUN, timeout_ms=None)
        mended = self.classify_errors and self.honour_retry_after
        return Policies(
            retry=ExponentialBackoff() if mended else self._retry(),
            tool_execution=ToolExecution(start=start),
            hook_isolation=HookIsolation() if self.isolate_hooks else unbounded,
            report_failed_tools=self.report_failed_tools,
        )

    def _retry(self) -> StatusRetry:
        return StatusRetry(
            by_status=not self.classify_errors, honours_retry_after=self.honour_retry_after
        )


DOCUMENTED = ReferenceOptions(**{field.name: False for field in fields(ReferenceOptions)})
VERSIONS: Mapping[str, ReferenceOptions] = {"documented": DOCUMENTED}
"""The loop as documents 000/002 print it: without any mend."""
