"""The options of the loop of document 001, and the versions of the real program as options.

Not here: the machine (pi.py). The rule to keep: an option names one difference between the document
and the real program, and `None` leaves it as the version has it, or the document.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from simloop.kernel.checked import AS_WRITTEN, Word, check_settings
from simloop.kernel.machine import deviating
from simloop.kernel.policies import (
    Compaction,
    Conversion,
    HookIsolation,
    OnAbort,
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


class AfterAbort(Word):
    """The behaviour of a run after an abort."""

    STOP = "stop"  # the end, at once
    CALL = "call"  # no further tool; the next model call comes back as aborted
    TOOLS_AND_CALL = "tools-and-call"  # the tools of the reply, and then that


@dataclass(frozen=True, slots=True, kw_only=True)
class PiOptions:
    """The options of the pi loop. `None` leaves one as the version has it."""

    __pydantic_config__: ClassVar = AS_WRITTEN

    steering: Delivery | None = None
    """How many steering messages go with the next request; by default one-at-a-time."""
    follow_up: Delivery | None = None
    """How many follow-up messages are taken at the end of a run; by default one-at-a-time."""
    parallel: bool | None = None
    """Run the calls of a reply at once, as the real program does since 0.58.0."""
    refuse_cut_calls: bool | None = None
    """Calls of a reply that ends with `length` are not executed (0.87.1)."""
    after_abort: AfterAbort | None = None
    """What follows an abort: the end, one more model call (0.87.1), or more (0.73.1)."""
    compacts: bool | None = None
    """Compact a context of more than 100 messages; the versions have no compaction."""
    warns: bool | None = None
    """Report each model call after the fiftieth; the versions report none."""
    resend_failed: bool | None = None
    """A reply that failed goes into later requests; in the versions only the transcript has it."""
    resend_thinking: bool | None = None
    """The model's reasoning goes into later requests, as in the versions."""
    convert_arguments: Conversion | None = None
    """How arguments of the wrong type are converted: eager (0.73.1) or careful (0.87.1)."""
    check_changed: bool | None = None
    """Validate arguments again that a hook has changed; the versions do not."""
    hook_errors_answer: bool | None = None
    """A tool hook that raises gives its call an error result, and no hook times out (versions)."""
    terminate: bool | None = None
    """A run ends when every result of a reply asks for it with `terminate` (versions)."""

    def __post_init__(self) -> None:
        """Refuse what a file could not say either: see `check_settings`."""
        check_settings(self, "loops.pi")

    def on(self, version: "PiOptions") -> "PiOptions":
        """Return these options; take each unset one from `version`."""
        names = (field.name for field in fields(self) if getattr(self, field.name) is None)
        return replace(self, **{name: getattr(version, name) for name in names})

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
                bool(self.resend_failed),
                "no-incomplete-replies-in-context",
                "later requests contain a reply without a finish reason",
            ),
            (
                True,
                "completed-after-a-complete-reply",
                "every reply without calls completes the run, also if it was cut off",
            ),
            (
                bool(self.terminate),
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
                conversion=self.convert_arguments or Conversion.NONE,
                check_changed=bool(self.check_changed),
            ),
            hook_isolation=_ANSWERING if self.hook_errors_answer else HookIsolation(),
            sent_back=SentBack(
                failed=bool(self.resend_failed), reasoning=bool(self.resend_thinking)
            ),
            on_abort=_ON_ABORT[self.after_abort or AfterAbort.STOP],
            warn_after=50 if self.warns else None,
        )


_ANSWERING = HookIsolation(on_failure=OnHookFailure.ERROR_RESULT, timeout_ms=None)
_ON_ABORT = {
    AfterAbort.STOP: OnAbort.END_RUN,
    AfterAbort.CALL: OnAbort.STOP_BATCH,
    AfterAbort.TOOLS_AND_CALL: OnAbort.RUN_BATCH,
}

DOCUMENT = PiOptions(
    steering=Delivery.ONE_AT_A_TIME,
    follow_up=Delivery.ONE_AT_A_TIME,
    parallel=False,
    refuse_cut_calls=False,
    after_abort=AfterAbort.STOP,
    compacts=True,
    warns=True,
    resend_failed=True,
    resend_thinking=False,
    convert_arguments=Conversion.NONE,
    check_changed=True,
    hook_errors_answer=False,
    terminate=False,
)
"""The options that reproduce document 001."""

_PROGRAM = PiOptions(
    parallel=True,
    compacts=False,
    warns=False,
    resend_failed=False,
    resend_thinking=True,
    convert_arguments=Conversion.EAGER,
    check_changed=False,
    hook_errors_answer=True,
    terminate=True,
).on(DOCUMENT)

VERSIONS: Mapping[str, PiOptions] = {
    "0.73.1": replace(_PROGRAM, after_abort=AfterAbort.TOOLS_AND_CALL),
    "0.87.1": replace(
        _PROGRAM,
        after_abort=AfterAbort.CALL,
        refuse_cut_calls=True,
        convert_arguments=Conversion.CAREFUL,
    ),
}
"""The options that reproduce each version of pi-agent-core."""
