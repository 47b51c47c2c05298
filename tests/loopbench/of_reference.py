"""Faults of the machine of the reference loop."""

from fault import Fault

_REFERENCE = "simloop.loops.reference:ReferenceLoop"

FAULTS = (
    Fault(
        name="errors-forgotten-by-tools",
        says="A reply with calls resets the error count to 0; the correct loop never does this.",
        bug="E6",
        target=f"{_REFERENCE}._take_reply",
        replace="tools = Run(RunningTools(reply), run.error_count,",
        by="tools = Run(RunningTools(reply), 0,",
        circumstances=("a failed call", "a reply with calls", "more failures"),
        violates=("counters-never-decrease",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model:
              - http: {status: 503}
              - call: {look: {}}
              - {http: {status: 503}, times: 2}
              - {say: Done., times: always}
        """,
        right="{outcome: too-many-errors, counters: {error_count: 3}, unused: 1}",
        wrong="{outcome: completed, counters: {error_count: 2}}",
    ),
    Fault(
        name="empty-reply-free-after-progress",
        says="An empty reply counts as an error only in the first step of a run.",
        bug="A11",
        target=f"{_REFERENCE}._answer",
        replace="if not (reply.text or reply.calls) and self.options.empty_reply_fails:",
        by="if not (reply.text or reply.calls) and run.total_steps > 2:\n"
        "        return self._exceeded(run) or self._measure(run)\n"
        "    if not (reply.text or reply.calls) and self.options.empty_reply_fails:",
        circumstances=("two steps with calls", "an empty reply"),
        violates=("useless-replies-count-as-errors",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model:
              - {call: {look: {}}, times: 2}
              - {finish: stop}
              - {say: Done., times: always}
        """,
        right="{outcome: completed, backoffs: [2s], counters: {error_count: 1}}",
        wrong="{outcome: completed, backoffs: [], counters: {error_count: 0}}",
    ),
    Fault(
        name="one-error-too-many",
        says="The error count is compared with > instead of >=, so one more call is made.",
        target=f"{_REFERENCE}._recover",
        replace="failed.error_count >= self.limits.max_error_count",
        by="failed.error_count > self.limits.max_error_count",
        bug="C1",
        violates=("limits-enforced",),
        witness="""
            prompt: Go.
            limits: {max_error_count: 2}
            model: [{http: {status: 500}, times: 2}, {say: Done., times: always}]
        """,
        right="{outcome: too-many-errors, requests: 2, unused: 1}",
        wrong="{outcome: completed, requests: 3}",
    ),
    Fault(
        name="compaction-that-helps-is-free",
        says="A compaction counts only if it gains nothing, so helpful compactions have no bound.",
        bug="B17",
        target=f"{_REFERENCE}._resume",
        replace="(shrunk or self.options.count_tries)",
        by="(not shrunk)",
        circumstances=("a compaction that helps", "another one"),
        unusual="max_compaction_attempts: 1",
        violates=("every-attempt-counted",),
        witness="""
            prompt: Go.
            limits: {max_compaction_attempts: 1}
            context: {over: [true, true, false], shrunk: [true]}
            model: [{say: Done., times: always}]
        """,
        right="{counters: {compaction_attempts: 1}}",
        wrong="{counters: {compaction_attempts: 2}}",
    ),
    Fault(
        name="compaction-forgives-errors",
        says="A compaction that helps resets the error count to 0.",
        bug="E6",
        target=f"{_REFERENCE}._resume",
        replace="Run(run.state, run.error_count, run.total_steps, attempts)",
        by="Run(run.state, 0 if shrunk else run.error_count, run.total_steps, attempts)",
        circumstances=("a failed call", "a compaction that helps", "more failures"),
        violates=("counters-never-decrease",),
        witness="""
            prompt: Go.
            context: {over: [false, true, false], shrunk: [true]}
            model: [{http: {status: 500}, times: 3}, {say: Done., times: always}]
        """,
        right="{outcome: too-many-errors, requests: 3, unused: 1}",
        wrong="{outcome: completed, requests: 4}",
    ),
    Fault(
        name="forced-compaction-in-vain-goes-on",
        says="After a forced compaction that gained nothing, the same call is made again.",
        bug="B15",
        target=f"{_REFERENCE}._resume",
        replace="if forced:",
        by="if forced and attempts >= self.limits.max_compaction_attempts:",
        circumstances=("a forced compaction", "nothing gained", "an attempt left"),
        violates=("useless-forced-compaction-ends-run",),
        witness="""
            prompt: Go.
            context: {over: [false], shrunk: [false]}
            model: [{say: The, finish: length}, {say: Done., times: always}]
        """,
        right="{outcome: context-limit, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="queue-passes-the-step-limit",
        says="A queued message continues the run although max_steps is reached.",
        target=f"{_REFERENCE}._answer",
        replace="if queued:\n        return self._exceeded(run) or self._measure(run)",
        by="if queued:\n        return self._measure(run)",
        circumstances=("the last step", "a queued message"),
        unusual="max_steps: 1",
        bug="E1",
        violates=("limits-enforced",),
        witness="""
            prompt: Go.
            limits: {max_steps: 1}
            queue: [{after: finish, say: And then?}]
            model: [{say: One.}, {say: Two., times: always}]
        """,
        right="{outcome: max-steps, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="burst-of-calls-only",
        says="The bound on the steps of one reply holds only for replies with calls.",
        target=f"{_REFERENCE}._take_reply",
        replace="signal.steps > self.limits.max_steps_per_round",
        by="signal.steps > self.limits.max_steps_per_round and signal.calls",
        circumstances=("many steps reported at once", "a useless reply"),
        unusual="max_steps_per_round: 2",
        bug="E2",
        violates=("max-steps-per-round-enforced",),
        witness="""
            prompt: Go.
            limits: {max_steps_per_round: 2}
            model: [{finish: stop, steps: 3}, {say: Done., times: always}]
        """,
        right="{outcome: max-steps, limit: max_steps_per_round, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="answer-at-the-limit-is-an-end",
        says="An answer in the last allowed step is reported as reaching the limit.",
        bug="E1",
        target=f"{_REFERENCE}._answer",
        replace="return self._finish(run, Outcome.COMPLETED)",
        by="return self._exceeded(run) or self._finish(run, Outcome.COMPLETED)",
        unusual="max_steps: 1",
        violates=("answers-complete-runs",),
        witness="""
            prompt: Go.
            limits: {max_steps: 1}
            model: [{say: Done.}]
        """,
        right="{outcome: completed}",
        wrong="{outcome: max-steps}",
    ),
    Fault(
        name="filtered-text-is-an-answer",
        says="A reply that the content filter stopped completes the run if it has some text.",
        target=f"{_REFERENCE}._follow",
        replace="if reason is _CONTENT_FILTER:",
        by="if reason is _CONTENT_FILTER and not reply.text:",
        circumstances=("a content filter", "some text"),
        violates=("completed-after-a-complete-reply",),
        witness="""
            prompt: Go.
            model: [{say: First you take, finish: content-filter}]
        """,
        right="{outcome: content-filtered}",
        wrong="{outcome: completed, text: First you take}",
    ),
    Fault(
        name="interrupted-calls-run",
        says="The calls of a stream that ended without a finish are run, and the reply retried.",
        bug="D11",
        target=f"{_REFERENCE}._take_reply",
        replace="if signal.finish in _RUNS_ITS_CALLS or",
        by="if signal.finish in _RUNS_ITS_CALLS or signal.finish is _INTERRUPTED or",
        circumstances=("a whole call", "a stream without a finish"),
        violates=("no-tools-for-failed-replies",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid}}
            model: [{call: {pay: {}}, unfinished: true}, {say: Done., times: always}]
        """,
        right="{tools_run: []}",
        wrong="{tools_run: [pay]}",
    ),
    Fault(
        name="compaction-limit-off-by-one",
        says="A forced compaction is allowed once more than max_compaction_attempts.",
        bug="B18",
        target=f"{_REFERENCE}._make_room",
        replace="run.compaction_attempts >= self.limits.max_compaction_attempts",
        by="run.compaction_attempts > self.limits.max_compaction_attempts",
        unusual="max_compaction_attempts: 0",
        violates=("limits-enforced",),
        witness="""
            prompt: Go.
            limits: {max_compaction_attempts: 0}
            context: {over: [false], shrunk: [true]}
            model: [{say: The, finish: length}, {say: Done., times: always}]
        """,
        right="{outcome: context-limit, requests: 1, unused: 1}",
        wrong="{outcome: completed, counters: {compaction_attempts: 1}}",
    ),
    Fault(
        name="retry-passes-the-step-limit",
        says="A retry after a useless reply is made although max_steps is reached.",
        target=f"{_REFERENCE}._recover",
        replace="return self._exceeded_on_a_detour(failed) or (failed.to(_BACKING_OFF), backoff)",
        by="return failed.to(_BACKING_OFF), backoff",
        circumstances=("the last step", "a useless reply"),
        unusual="max_steps: 1",
        bug="A11",
        violates=("limits-enforced",),
        witness="""
            prompt: Go.
            limits: {max_steps: 1}
            model: [{finish: stop}, {say: Done., times: always}]
        """,
        right="{outcome: max-steps, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="abort-after-the-step-completes",
        says="An abort in a hook after the step ends the run as completed.",
        bug="C8",
        target=f"{_REFERENCE}._stop",
        replace="waits = type",
        by="if type(run.state) is ClosingStep and type(signal) is AbortRequested:\n"
        "        return self._finish(run, Outcome.COMPLETED)\n"
        "    waits = type",
        circumstances=("a hook after the reply", "an abort in it"),
        violates=("outcome-matches-stop",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            abort: {at: 1s}
            hooks: [{at: after_llm_call, takes: 3s}]
            model: [{call: {look: {}}}, {say: Done., times: always}]
        """,
        right="{outcome: aborted, elapsed: 1s, unused: 1}",
        wrong="{outcome: completed, elapsed: 1s, unused: 1}",
    ),
)
