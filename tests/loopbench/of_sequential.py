"""Faults of the sequential agent."""

from fault import Fault

_AGENT = "sequential_agent:Sequential"

FAULTS = (
    Fault(
        name="sequential-wait-of-an-earlier-failure",
        says="The wait after a useless reply is the Retry-After of an earlier failure.",
        bug="C3",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="    while True:\n        fault = None\n",
        by="    fault = None\n    while True:\n",
        circumstances=("a failure with Retry-After", "a useless reply after it"),
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, retry_after: 9s}}, {finish: stop}, {say: Done.}]
        """,
        right="{elapsed: 11s}",
        wrong="{elapsed: 18s}",
    ),
    Fault(
        name="sequential-errors-forgotten",
        says="A useful reply resets the error count of the run to 0.",
        bug="E6",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="                return reply\n",
        by="                self.errors = 0\n                return reply\n",
        circumstances=("a failed call", "a reply with calls", "more failures"),
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model:
              - {http: {status: 503}, times: 2}
              - call: {look: {}}
              - {http: {status: 503}, times: 2}
              - {say: Done., times: always}
        """,
        right="{outcome: failed, requests: 5, unused: 1}",
        wrong="{outcome: completed, requests: 6}",
    ),
    Fault(
        name="sequential-first-delay-halved",
        says="The delays are counted from 0, so each one is half as long.",
        bug="C3",
        loop=_AGENT,
        target=f"{_AGENT}.wait_s",
        replace="1 << (self.errors - 1)",
        by="2 ** (self.errors - 2)",
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}}, {say: Done.}]
        """,
        right="{elapsed: 1s}",
        wrong="{elapsed: 500ms}",
    ),
    Fault(
        name="sequential-delay-without-a-cap",
        says="The delay is doubled without a cap.",
        bug="C2",
        loop=_AGENT,
        target=f"{_AGENT}.wait_s",
        replace="min(1 << (self.errors - 1), 3)",
        by="1 << (self.errors - 1)",
        circumstances=("three failures in a run",),
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}, times: 3}, {say: Done.}]
        """,
        right="{elapsed: 6s}",
        wrong="{elapsed: 7s}",
    ),
    Fault(
        name="sequential-retry-after-without-a-cap",
        says="The agent waits for a Retry-After of an hour.",
        bug="C2",
        loop=_AGENT,
        target=f"{_AGENT}.wait_s",
        replace="return min(asked, 60)",
        by="return asked",
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 503, retry_after: 1h}}, {say: Done.}]
        """,
        right="{elapsed: 60s}",
        wrong="{elapsed: 1h}",
    ),
    Fault(
        name="sequential-milliseconds-as-seconds",
        says="The header retry-after-ms is read as seconds.",
        loop=_AGENT,
        target="sequential_agent:retry_after_s",
        replace='("retry-after-ms", 1e-3)',
        by='("retry-after-ms", 1)',
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, headers: {retry-after-ms: "50"}}}, {say: Done.}]
        """,
        right="{elapsed: 50ms}",
        wrong="{elapsed: 50s}",
    ),
    Fault(
        name="sequential-past-date-retries-at-once",
        says="After a Retry-After date in the past, the call is retried without a wait.",
        loop=_AGENT,
        target="sequential_agent:retry_after_s",
        replace="asked_ns / 1e9 if asked_ns > 0 else None",
        by="max(asked_ns, 0) / 1e9",
        circumstances=("a date in Retry-After", "it has passed"),
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model:
              - http: {status: 429, headers: {retry-after: "Wed, 31 Dec 2025 00:00:10 GMT"}}
              - {say: Done.}
        """,
        right="{elapsed: 1s}",
        wrong="{elapsed: 0s}",
    ),
    Fault(
        name="sequential-useless-reply-passes-the-limit",
        says="A useless reply in the last step is tried again.",
        bug="A11",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="if self.steps >= self.limits.max_steps:\n                raise",
        by="if self.steps > self.limits.max_steps + 1:\n                raise",
        circumstances=("the last step", "a useless reply"),
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, times: 9}, {finish: stop}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 10, unused: 1}",
        wrong="{outcome: completed, requests: 11}",
    ),
    Fault(
        name="sequential-stopped-call-is-open",
        says="The call whose tool an abort stops has no result; the calls after it have results.",
        bug="D1",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="for call in open_calls",
        by="for call in open_calls[1:]",
        circumstances=("an abort in a tool", "another prompt"),
        violates=("answered-calls",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tools: {wait: {takes: 5s}}
            model: [{call: {wait: {}}}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], broken_pairs: []}",
        wrong="""{outcomes: [aborted, completed],
            broken_pairs: ["request 2: call 'call-1' has no result"]}""",
    ),
    Fault(
        name="sequential-stopped-step-forgotten",
        says="A step that an abort stops is forgotten, with the tools that ran in it.",
        bug="D9",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="        self.messages += [message, *results]",
        by="        if not any(each.text == 'Error: stopped' for each in results):\n"
        "            self.messages += [message, *results]",
        circumstances=("a tool that ran", "an abort in the same step", "another prompt"),
        violates=("replies-with-calls-kept",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tools: {pay: {returns: paid}, wait: {takes: 5s}}
            model: [{call: [{pay: {}}, {wait: {}}]}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], sent: [user, user assistant tool tool user]}",
        wrong="{outcomes: [aborted, completed], sent: [user, user user]}",
    ),
    Fault(
        name="sequential-repeated-ids-stay",
        says="Two calls of one reply may share an id.",
        bug="D14",
        loop=_AGENT,
        target=f"{_AGENT}.named",
        replace="while not unique or unique in self.ids:",
        by="while not unique:",
        violates=("answered-calls",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: [{look: {}}, {look: {}}], ids: [a, a]}, {say: Done.}]
        """,
        right="{ids_run: [a, a-2]}",
        wrong="{ids_run: [a, a]}",
    ),
    Fault(
        name="sequential-cut-calls-run",
        says="The calls of a reply that was cut off are run.",
        bug="D11",
        loop=_AGENT,
        target=f"{_AGENT}.is_useful",
        replace="if reply.finish in _BROKEN:",
        by="if reply.finish in _BROKEN and not reply.message.calls:",
        circumstances=("a finish of length", "a call"),
        violates=("no-tools-for-incomplete-replies",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid}}
            model: [{call: {pay: {}}, finish: length}, {say: Done., times: always}]
        """,
        right="{outcome: failed, tools_run: [], unused: 1}",
        wrong="{outcome: completed, tools_run: [pay]}",
    ),
    Fault(
        name="sequential-filtered-text-is-an-answer",
        says="A reply that the content filter stopped is the answer if it has some text.",
        loop=_AGENT,
        target=f"{_AGENT}.is_useful",
        replace="if reply.finish in _BROKEN:",
        by="if reply.finish in _BROKEN and not (\n"
        "        reply.finish is FinishReason.CONTENT_FILTER and reply.message.text\n    ):",
        circumstances=("a content filter", "some text"),
        violates=("completed-after-a-complete-reply",),
        witness="""
            prompt: Go.
            model: [{say: First you take, finish: content-filter}]
        """,
        right="{outcome: failed}",
        wrong="{outcome: completed, text: First you take}",
    ),
    Fault(
        name="sequential-second-message-lost",
        says="If several messages are queued, only the first is sent.",
        bug="B12",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="map(UserMessage, world.user.take())",
        by="map(UserMessage, world.user.take()[:1])",
        circumstances=("a queued message", "another one in the same step"),
        violates=("queued-messages-delivered",),
        witness="""
            prompt: Go.
            queue: [{after: tool-call, say: One.}, {after: finish, say: Two.}]
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{sent: [user, user assistant tool user user]}",
        wrong="{sent: [user, user assistant tool user]}",
    ),
    Fault(
        name="sequential-empty-arguments-guessed",
        says="A call with empty arguments is run as if it had an empty object.",
        bug="A10",
        loop=_AGENT,
        target=f"{_AGENT}.named",
        replace="call.name, call.arguments)",
        by='call.name, call.arguments or "{}")',
        violates=("only-called-tools-run",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: ""}}, {say: Done.}]
        """,
        right="{tools_run: []}",
        wrong="{tools_run: [look]}",
    ),
    Fault(
        name="sequential-number-in-the-words",
        says="A permanent error is retried because its words contain 500.",
        bug="C7",
        loop=_AGENT,
        target=f"{_AGENT}.passes",
        replace='fault.code == "interrupted" or',
        by='fault.code == "interrupted" or "500" in fault.message or',
        circumstances=("a permanent error", "a number in its words"),
        violates=("no-retry-of-permanent-failure",),
        witness="""
            prompt: Go.
            model:
              - http: {status: 400, message: At most 15000 bytes are allowed.}
              - {say: Done., times: always}
        """,
        right="{outcome: failed, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="sequential-second-run-has-fewer-errors",
        says="The next prompt begins with the error count of the run before it.",
        bug="E6",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="self.errors = self.steps = 0",
        by='self.errors, self.steps = getattr(self, "errors", 0), 0',
        circumstances=("a failure in one run", "another one in the next"),
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            then: [Again.]
            model: [{http: {status: 500}}, {say: One.}, {http: {status: 500}}, {say: Two.}]
        """,
        right="{elapsed: 2s}",
        wrong="{elapsed: 3s}",
    ),
    Fault(
        name="sequential-conversation-forgotten",
        says="A new prompt begins a new conversation if the run before it failed.",
        bug="E4",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="self.messages.append(UserMessage(prompt))",
        by="if self.messages and isinstance(self.messages[-1], UserMessage):\n"
        "        self.messages.clear()\n    self.messages.append(UserMessage(prompt))",
        circumstances=("a run that failed", "another prompt"),
        violates=("conversation-kept-between-prompts",),
        witness="""
            prompt: Go.
            then: [Again., And more.]
            model: [{http: {status: 401}}, {say: Done., times: always}]
        """,
        right="""{outcomes: [failed, completed, completed],
            sent: [user, user user, user user assistant user]}""",
        wrong="""{outcomes: [failed, completed, completed],
            sent: [user, user, user assistant user]}""",
    ),
)
