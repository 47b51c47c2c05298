"""Faults of the machines of pi, react and opencode."""

from fault import Fault

_PI = "simloop.loops.pi:PiLoop"
_REACT = "simloop.loops.react:ReactLoop"
_OPENCODE = "simloop.loops.opencode:OpencodeLoop"

FAULTS = (
    Fault(
        name="follow-up-cuts-the-tools-off",
        says="A queued follow-up is sent before the model has finished its work with tools.",
        loop="pi",
        target=f"{_PI}._follow",
        replace="if reply.calls or steering:",
        by="if (reply.calls and not follow_up) or steering:",
        circumstances=("a reply with calls", "a follow-up that waits"),
        bug="B12",
        violates=("follow-ups-taken-at-run-end",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            queue: [{after: tool-call, say: And then?, follow_up: true}]
            model: [{call: {look: {}}}, {say: One.}, {say: Two., times: always}]
        """,
        right="{sent: [user, user assistant tool, user assistant tool assistant user]}",
        wrong="{sent: [user, user assistant tool user], unused: 1}",
    ),
    Fault(
        name="cut-calls-with-text-run",
        says="The calls of a reply that was cut off are run if it also has text.",
        bug="D11",
        loop="pi@0.87.1",
        target=f"{_PI}._take_reply",
        replace="cut = reply.finish is FinishReason.LENGTH and",
        by="cut = reply.finish is FinishReason.LENGTH and not reply.text and",
        circumstances=("a finish of length", "calls", "text"),
        violates=("no-tools-for-incomplete-replies",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid}}
            model: [{say: I pay., call: {pay: {}}, finish: length}, {say: Done., times: always}]
        """,
        right="{tools_run: []}",
        wrong="{tools_run: [pay]}",
    ),
    Fault(
        name="failed-call-completes",
        says="A model call that fails ends the run as completed.",
        bug="C6",
        loop="pi",
        target=f"{_PI}.advance",
        replace="Outcome.ABORTED if aborted else Outcome.FAILED",
        by="Outcome.ABORTED if aborted else Outcome.COMPLETED",
        violates=("completed-after-a-reply",),
        witness="""
            prompt: Go.
            model: [{say: So, lost: mid-output}]
        """,
        right="{outcome: failed}",
        wrong="{outcome: completed}",
    ),
    Fault(
        name="one-round-too-many",
        says="The rounds are compared with > instead of >=.",
        bug="E1",
        loop="react",
        target=f"{_REACT}._go_on",
        replace="run.total_steps >= self.max_rounds",
        by="run.total_steps > self.max_rounds",
        unusual="max_steps: 2",
        violates=("limits-enforced",),
        witness="""
            prompt: Go.
            limits: {max_steps: 2}
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, times: 2}, {say: Done., times: always}]
        """,
        right="{outcome: max-steps, requests: 2, unused: 1}",
        wrong="{outcome: completed, requests: 3}",
    ),
    Fault(
        name="talkative-rounds-count-twice",
        says="A reply that has text beside its call counts as two rounds.",
        bug="E2",
        loop="react",
        target=f"{_REACT}._take_reply",
        replace="total_steps=run.total_steps + 1)",
        by="total_steps=run.total_steps + 1 + (reply.text and reply.calls))",
        circumstances=("text beside a call", "a limit that is near"),
        unusual="max_steps: 2",
        violates=("counters-never-decrease",),
        witness="""
            prompt: Go.
            limits: {max_steps: 2}
            tools: {look: {returns: ok}}
            model: [{say: I look., call: {look: {}}}, {say: Done., times: always}]
        """,
        right="{outcome: completed, requests: 2}",
        wrong="{outcome: max-steps, requests: 1, unused: 1}",
    ),
    Fault(
        name="errors-of-steps-add-up",
        says="The failures of one step still count in the next one, and its wait is longer.",
        bug="E6",
        loop="opencode",
        target=f"{_OPENCODE}._counted",
        replace="return Run(run.state, total_steps=steps)",
        by="return Run(run.state, run.error_count, steps)",
        circumstances=("a failed call in one step", "another one in a later step"),
        violates=("counters-reset-after-reply",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model:
              - http: {status: 503}
              - call: {look: {}}
              - http: {status: 503}
              - {say: Done., times: always}
        """,
        right="{backoffs: [1s, 1s]}",
        wrong="{backoffs: [1s, 2s]}",
    ),
    Fault(
        name="compacts-in-vain-and-asks",
        says="A compaction that gained nothing does not stop the run.",
        bug="B1",
        loop="opencode",
        target=f"{_OPENCODE}._resume",
        replace="if not shrunk and not",
        by="if not shrunk and run.total_steps < 0 and not",
        circumstances=("a compaction", "nothing gained"),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            context: {over: [true], shrunk: [false]}
            model: [{call: {look: {}}, times: 2}, {say: Done., times: always}]
            max_transitions: 50
        """,
        right="{outcome: context-limit, requests: 1, unused: 2}",
        wrong="{error: RunawayRun}",
    ),
    Fault(
        name="late-message-is-not-answered",
        says="A message that arrives with the last reply is not answered in the run.",
        bug="B12",
        loop="opencode",
        target=f"{_OPENCODE}._judge",
        replace="if goes_on or queued:",
        by="if goes_on:",
        circumstances=("the last reply", "a queued message"),
        violates=("no-completion-with-queued-messages",),
        witness="""
            prompt: Go.
            queue: [{after: finish, say: And then?}]
            model: [{say: One.}, {say: Two., times: always}]
        """,
        right="{requests: 2, text: Two.}",
        wrong="{requests: 1, text: One., unused: 1}",
    ),
    Fault(
        name="last-step-has-tools",
        says="The last of the enforced steps still has its tools, and its results are not read.",
        bug="A5",
        loop="opencode",
        target=f"{_OPENCODE}._request",
        replace="tools=not (last and",
        by="tools=not (last and run.total_steps + 1 > self.max_steps and",
        unusual="max_steps: 1, enforced",
        witness="""
            prompt: Go.
            limits: {max_steps: 1}
            loops: {opencode: {steps: enforce}}
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}}, {say: Done., times: always}]
        """,
        right="{outcome: max-steps, tools_run: [], unused: 1}",
        wrong="{outcome: max-steps, tools_run: [look], unused: 1}",
    ),
    Fault(
        name="one-retry-too-few",
        says="The last of the allowed retries is not made.",
        loop="opencode",
        target=f"{_OPENCODE}._catch",
        replace="failed.error_count > self.options.max_retries",
        by="failed.error_count >= self.options.max_retries",
        unusual="max_retries: 1",
        bug="C3",
        violates=("limits-not-enforced-early",),
        witness="""
            prompt: Go.
            loops: {opencode: {max_retries: 1}}
            model: [{http: {status: 503}}, {say: Done., times: always}]
        """,
        right="{outcome: completed, backoffs: [1s]}",
        wrong="{outcome: too-many-errors, backoffs: [], unused: 1}",
    ),
    Fault(
        name="a-try-costs-a-step",
        says="Each failed try of a step counts as a step.",
        bug="E2",
        loop="opencode",
        target=f"{_OPENCODE}._catch",
        replace="run.error_count + 1, run.total_steps)",
        by="run.error_count + 1, min(run.total_steps + 1, self.max_steps))",
        circumstances=("a failed call", "a limit that is near"),
        unusual="max_steps: 2, enforced",
        violates=("every-attempt-counted",),
        witness="""
            prompt: Go.
            limits: {max_steps: 2}
            loops: {opencode: {steps: enforce}}
            tools: {look: {returns: ok}}
            model: [{http: {status: 503}}, {call: {look: {}}}, {say: Done., times: always}]
        """,
        right="{outcome: completed, tools_run: [look]}",
        wrong="{outcome: max-steps, tools_run: [], unused: 1}",
    ),
)
