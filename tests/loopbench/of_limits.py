"""Faults of policies and of limits at their edges: compaction, hooks, and the wall clock."""

from fault import Fault

FAULTS = (
    Fault(
        name="wall-clock-of-the-conversation",
        says="The wall clock starts with the conversation, not the run, so later runs end early.",
        target="simloop.world.cancellation:Cancellation.open",
        replace="self._loop.now_ns + wall_clock_ms * NS_PER_MS",
        by="wall_clock_ms * NS_PER_MS",
        circumstances=("a run that takes time", "another one with the same limit"),
        unusual="max_wall_clock: 5s",
        bug="E5",
        violates=("max-wall-clock-enforced",),
        witness="""
            prompt: Go.
            then: [Again.]
            limits: {max_wall_clock: 5s}
            model: [{say: [One., Two.], pace: {first_part: 3s}, times: 2}]
        """,
        right="{outcomes: [completed, completed], elapsed: 6s}",
        wrong="{outcomes: [completed, timed-out], elapsed: 5s}",
    ),
    Fault(
        name="hook-may-take-twice-its-limit",
        says="A hook is given up after twice the time that the policy allows.",
        target="simloop.engine.user_code:UserCode._wait",
        replace="timeouts.after(self._isolation.timeout_ms)",
        by="timeouts.after(self._isolation.timeout_ms and 2 * self._isolation.timeout_ms)",
        witness="""
            prompt: Go.
            hooks: [{at: before_llm_call, hangs: true}]
            model: [{say: Done.}]
        """,
        right="{elapsed: 5s}",
        wrong="{elapsed: 10s}",
    ),
    Fault(
        name="failing-hook-does-not-fail-the-run",
        says="A hook that times out does not end the run, although the policy requires it.",
        target="simloop.engine.user_code:UserCode._apply_isolation",
        replace="if on_failure is OnHookFailure.FAIL_RUN:",
        by='if on_failure is OnHookFailure.FAIL_RUN and not detail.startswith("took longer"):',
        unusual="hook_isolation.on_failure: fail-run",
        circumstances=("a hook that hangs", "a policy that fails the run"),
        witness="""
            prompt: Go.
            hook_isolation: {on_failure: fail-run}
            hooks: [{at: before_llm_call, hangs: true}]
            model: [{say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 0, unused: 1}",
        wrong="{outcome: completed, requests: 1}",
    ),
    Fault(
        name="failing-hook-does-not-block-the-model",
        says="A failing hook does not block the model call, although the policy requires it.",
        target="simloop.engine.user_code:UserCode._apply_isolation",
        replace="BLOCK_CALL and isinstance(given, Blockable):",
        by="BLOCK_CALL and isinstance(given, BeforeToolCall):",
        unusual="hook_isolation.on_failure: block-call",
        circumstances=("a hook that fails", "a policy that blocks the call"),
        witness="""
            prompt: Go.
            hook_isolation: {on_failure: block-call}
            hooks: [{at: before_llm_call, raises: broken}]
            model: [{say: Done., times: always}]
        """,
        right="{outcome: blocked, requests: 0, unused: 1}",
        wrong="{outcome: completed, requests: 1}",
    ),
    Fault(
        name="one-turn-too-few-is-kept",
        says="A compaction keeps one turn fewer than the policy requires.",
        target="simloop.engine.compaction:plan_cut",
        replace="max(0, len(turns) - keep_turns)",
        by="max(0, len(turns) - keep_turns + 1)",
        unusual="keep_turns: 2",
        bug="B10",
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 2}
            tools: {look: {returns: The garden is green and the sky is blue and the sea is wide.}}
            summaries: [{say: S., times: always}]
            model: [{call: {look: {}}, times: 3}, {say: Done.}]
        """,
        right="{sent: [..., user summary assistant tool assistant tool]}",
        wrong="{sent: [..., user summary assistant tool]}",
    ),
    Fault(
        name="compacts-at-the-bound",
        says="The context is compacted when it has exactly max_messages, instead of more.",
        target="simloop.kernel.policies:Compaction.is_over",
        replace="messages > self.max_messages",
        by="messages >= self.max_messages",
        unusual="max_messages: 3",
        bug="B3",
        violates=("context-signal-matches-context",),
        witness="""
            prompt: Go.
            compaction: {max_messages: 3, keep_turns: 1, strategy: drop-oldest}
            history: [{user: Hello.}, {assistant: Hello.}]
            model: [{say: Done.}]
        """,
        right="{sent: [user assistant user]}",
        wrong="{sent: [user]}",
    ),
    Fault(
        name="failed-try-comes-back",
        says="The half reply of a run that failed is put into the context by the next run.",
        bug="D6",
        loop="opencode@1.18.34",
        target="simloop.engine.handlers:EffectHandlers.begin",
        replace="self._failed_tries: list[Message] = []",
        by='self._failed_tries = getattr(self, "_failed_tries", [])',
        circumstances=("a half reply", "the end of the run before its retry", "another prompt"),
        violates=("context-is-conserved",),
        witness="""
            prompt: Go.
            then: [Again., And again.]
            model: [{say: I would, lost: mid-output}, {http: {status: 401}}, {say: Done., times: 2}]
        """,
        right="{outcomes: [failed, completed, completed], sent: [..., user user assistant user]}",
        wrong="{outcomes: [failed, completed, completed],"
        " sent: [..., user user assistant assistant user]}",
    ),
    Fault(
        name="time-limit-is-an-abort",
        says="A run that the wall clock ends while it waits before a retry is reported as aborted.",
        target="simloop.loops.reference:ReferenceLoop._stop",
        replace="return stop(run, signal)[0], self._stopped",
        by="ended = AbortRequested() if type(run.state) is BackingOff else signal\n"
        "    return stop(run, ended)[0], self._stopped",
        unusual="max_wall_clock: 1s",
        circumstances=("a wait before a retry", "a time limit that ends in it"),
        violates=("outcome-matches-stop",),
        witness="""
            prompt: Go.
            limits: {max_wall_clock: 1s}
            model: [{http: {status: 500}}, {say: Done., times: always}]
        """,
        right="{outcome: timed-out, unused: 1}",
        wrong="{outcome: aborted, unused: 1}",
    ),
)
