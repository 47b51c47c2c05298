"""Faults of the parallel agent."""

from fault import Edit, Fault

_AGENT = "parallel_agent:Parallel"

FAULTS = (
    Fault(
        name="parallel-results-as-they-come",
        says="The results go into the context in the order in which the tools end.",
        bug="D3",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="tasks = [",
        by="self.messages.append(message)\n    tasks = [",
        more=(
            Edit(
                f"{_AGENT}.act",
                "return_exceptions=True)\n        self.messages.append(message)",
                "return_exceptions=True)",
            ),
            Edit(
                f"{_AGENT}.act",
                "if isinstance(result, ToolMessage):\n",
                "if result in self.messages:\n                continue\n"
                "            if isinstance(result, ToolMessage):\n",
            ),
            Edit(
                f"{_AGENT}.run",
                "return await asyncio.wait_for(world.tools.run(call), TOOL_TIMEOUT_S)",
                "self.messages.append(\n"
                "            await asyncio.wait_for(world.tools.run(call), TOOL_TIMEOUT_S))\n"
                "        return self.messages[-1]",
            ),
        ),
        circumstances=("two calls in a reply", "the first one takes longer"),
        violates=("results-in-call-order",),
        witness="""
            prompt: Go.
            tools: {slow: {returns: a, takes: 2s}, fast: {returns: b}}
            model: [{call: [{slow: {}}, {fast: {}}]}, {say: A., when: {contains: a}}, {say: B.}]
        """,
        right="{text: B., unused: 1}",
        wrong="{text: A., unused: 1}",
    ),
    Fault(
        name="parallel-first-result-ends-the-batch",
        says="When the first tool has returned, the others are stopped.",
        bug="D15",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="asyncio.wait(tasks)",
        by="asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)",
        circumstances=("two calls in a reply", "one takes longer"),
        violates=("no-tool-cancelled-by-another",),
        witness="""
            prompt: Go.
            tools: {slow: {returns: a, takes: 2s}, fast: {returns: b}}
            model: [{call: [{slow: {}}, {fast: {}}]}, {say: Done.}]
        """,
        right="{elapsed: 2s}",
        wrong="{elapsed: 0s}",
    ),
    Fault(
        name="parallel-tools-outlive-the-run",
        says="An abort does not stop the tools that run.",
        bug="F5",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="        for task in tasks:\n            task.cancel()\n"
        "        done = await asyncio.gather(*tasks, return_exceptions=True)",
        by="        done = [task.result() if task.done() else None for task in tasks]",
        circumstances=("a tool that waits", "an abort"),
        violates=("one-result-per-tool-start",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tools: {wait: {returns: late, takes: 5s}}
            model: [{call: {wait: {}}}, {say: Done., pace: {first_part: 10s}}]
        """,
        right="{outcomes: [aborted, completed], results: []}",
        wrong="{outcomes: [aborted, completed], results: [late]}",
    ),
    Fault(
        name="parallel-jitter-adds",
        says="Jitter lengthens each delay instead of shortening it.",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="(1 - 0.5 * random.random())",
        by="(1.5 - 0.5 * random.random())",
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}}, {say: Done.}]
        """,
        right="{elapsed: {max: 500ms}}",
        wrong="{elapsed: {min: 501ms}}",
    ),
    Fault(
        name="parallel-retry-after-has-the-cap-of-backoffs",
        says="A Retry-After is cut to the longest delay, so the provider is asked too early.",
        bug="C3",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="(asked_ns or delay_ns) / 1e9",
        by="min(asked_ns or delay_ns, 4_000_000_000) / 1e9",
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{http: {status: 429, retry_after: 45s}}, {say: Done.}]
        """,
        right="{elapsed: 45s}",
        wrong="{elapsed: 4s}",
    ),
    Fault(
        name="parallel-one-failure-too-many",
        says="The failures are compared with > instead of >=.",
        bug="C1",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="failures >= self.limits.max_error_count",
        by="failures > self.limits.max_error_count",
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}, times: 3}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 3, unused: 1}",
        wrong="{outcome: completed, requests: 4}",
    ),
    Fault(
        name="parallel-failures-forgotten",
        says="Each reply resets the failures of the run to 0.",
        bug="E6",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="self.numbered(reply.message), failures",
        by="self.numbered(reply.message), 0",
        circumstances=("failures", "a reply with calls", "more failures"),
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model:
              - {http: {status: 503}, times: 2}
              - call: {look: {}}
              - http: {status: 503}
              - {say: Done., times: always}
        """,
        right="{outcome: failed, requests: 4, unused: 1}",
        wrong="{outcome: completed, requests: 5}",
    ),
    Fault(
        name="parallel-useless-replies-spin",
        says="A useless reply is retried at once, without end.",
        bug="A11",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="raise UselessReply(reply.finish)",
        by="continue",
        violates=("agent-backoff-matches-policy",),
        witness="""
            prompt: Go.
            model: [{finish: stop, times: 10}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 1, unused: 2}",
        wrong="{outcome: completed, requests: 11}",
    ),
    Fault(
        name="parallel-one-round-too-many",
        says="The agent makes one round more than the limit.",
        bug="E1",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="for _ in range(self.limits.max_steps):",
        by="for _ in range(self.limits.max_steps + 1):",
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, times: 10}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 6, unused: 2}",
        wrong="{outcome: failed, requests: 7, unused: 2}",
    ),
    Fault(
        name="parallel-ids-reused-by-the-next-run",
        says="The numbers in the ids of calls begin anew with each prompt.",
        bug="D14",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="failures = 0",
        by="failures = self.calls = 0",
        circumstances=("a call in one run", "one with the same id in the next"),
        violates=("unique-call-ids",),
        witness="""
            prompt: Go.
            then: [Again.]
            tools: {look: {returns: ok}}
            model:
              - {call: {look: {}}, ids: [a]}
              - say: Done.
              - {call: {look: {}}, ids: [a]}
              - say: Done.
        """,
        right="{ids_run: [1-a, 2-a]}",
        wrong="{ids_run: [1-a, 1-a]}",
    ),
    Fault(
        name="parallel-slow-tool-runs-twice",
        says="A tool that times out is run again.",
        bug="C10",
        loop=_AGENT,
        target=f"{_AGENT}.run",
        replace="except TimeoutError:\n        return",
        by="except TimeoutError:\n        return await world.tools.run(call) or",
        violates=("tool-runs-at-most-once",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid, takes: 30s}}
            model: [{call: {pay: {}}}, {say: Done.}]
        """,
        right="{tools_run: [pay], elapsed: 20s}",
        wrong="{tools_run: [pay, pay], elapsed: 50s}",
    ),
    Fault(
        name="parallel-errors-look-like-successes",
        says="The result of a tool that failed is not marked as an error.",
        bug="D20",
        loop=_AGENT,
        target=f"{_AGENT}.run",
        replace="return await asyncio.wait_for(world.tools.run(call), TOOL_TIMEOUT_S)",
        by="done = await asyncio.wait_for(world.tools.run(call), TOOL_TIMEOUT_S)\n"
        "        return ToolMessage(done.call_id, done.text)",
        violates=("sent-result-matches-tool-result",),
        witness="""
            prompt: Go.
            tools: {look: {raises: broken}}
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{errors_sent: 1}",
        wrong="{errors_sent: 0}",
    ),
    Fault(
        name="parallel-timed-out-tool-goes-on",
        says="A tool that has timed out goes on during the next calls.",
        bug="D10",
        loop=_AGENT,
        target=f"{_AGENT}.run",
        replace="world.tools.run(call), TOOL",
        by="asyncio.shield(world.tools.run(call)), TOOL",
        circumstances=("a tool that takes too long", "a run that goes on"),
        violates=("tool-ends-before-its-answer",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid, takes: 30s}}
            model: [{call: {pay: {}}}, {say: Done., pace: {first_part: 60s}}]
        """,
        right="{results: []}",
        wrong="{results: [paid]}",
    ),
    Fault(
        name="parallel-stopped-calls-are-open",
        says="An abort leaves the calls whose tools still run without results.",
        bug="D4",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace='self.messages.append(ToolMessage(call.id, "Error: stopped", is_error=True))',
        by="pass",
        circumstances=("a batch of which a part has ended", "an abort", "another prompt"),
        violates=("answered-calls",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tools: {pay: {returns: paid}, wait: {takes: 5s}}
            model: [{call: [{pay: {}}, {wait: {}}]}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], broken_pairs: []}",
        wrong="""{outcomes: [aborted, completed],
            broken_pairs: ["request 2: call '2-call-2' has no result"]}""",
    ),
    Fault(
        name="parallel-retries-without-end",
        says="With an `and` instead of an `or`, retryable failures are retried without end.",
        bug="C1",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="not passing or failures",
        by="not passing and failures",
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            model: [{http: {status: 500}, times: 5}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 3, unused: 2}",
        wrong="{outcome: completed, requests: 6}",
    ),
    Fault(
        name="parallel-newest-message-first",
        says="Messages of the queue go into the context in the reverse order.",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="for text in world.user.take()]",
        by="for text in reversed(world.user.take())]",
        circumstances=("a queued message", "another one in the same step"),
        violates=("queued-messages-in-order",),
        witness="""
            prompt: Go.
            queue: [{after: tool-call, say: One.}, {after: finish, say: Two.}]
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}}, {say: A., when: {contains: One}},
              {say: B., when: {contains: Two}}]
        """,
        right="{text: B., unused: 1}",
        wrong="{text: A., unused: 1}",
    ),
)
