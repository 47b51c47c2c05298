"""Faults of tool calls: their timeouts, their batches, their results, and an abort among them."""

from fault import Edit, Fault

_CALLS = "simloop.engine.tool_calls:ToolCalls"
_RUNNING = "simloop.engine.running_tasks:RunningTasks"
_PORT = "simloop.world.tools_port:ToolsPort"

FAULTS = (
    Fault(
        name="policy-beats-the-tool-timeout",
        says="The timeout of the policy replaces the longer timeout of a tool.",
        target=f"{_PORT}.wait",
        replace="tool.timeout_ms or self._timeout_ms",
        by="self._timeout_ms or tool.timeout_ms",
        circumstances=("a timeout of the policy", "another one of the tool"),
        unusual="tool_execution.timeout: 1s",
        violates=("tool-timeouts",),
        witness="""
            prompt: Go.
            tool_execution: {timeout: 1s}
            tools: {build: {returns: built, takes: 3s, timeout: 5s}}
            model: [{call: {build: {}}}, {say: Done.}]
        """,
        right="{elapsed: 3s, results: [built]}",
        wrong="{elapsed: 1s, results: ['Error: timed out after 1000 ms']}",
    ),
    Fault(
        name="late-result-counts",
        says="A tool that returns after its timeout counts as successful.",
        target=f"{_PORT}.wait",
        replace="if timeout.expired:",
        by="if timeout.expired and result is None:",
        circumstances=("a timeout", "a tool that outlives its cancellation"),
        violates=("tool-timeouts",),
        witness="""
            prompt: Go.
            tools: {build: {returns: built, takes: 30s, timeout: 1s, outlives_cancel: 200ms}}
            model: [{call: {build: {}}}, {say: Done.}]
        """,
        right="{results: ['Error: timed out after 1000 ms']}",
        wrong="{results: [built]}",
    ),
    Fault(
        name="cancelled-tool-takes-the-run-along",
        says="A tool that cancels itself while it waits ends the run.",
        bug="D4",
        target=f"{_PORT}.wait",
        replace="if timeouts.task.cancelling():\n                raise",
        by="if timeouts.task is not None:\n                raise",
        circumstances=("a tool that waits", "it cancels itself"),
        violates=("CancelledError",),
        witness="""
            prompt: Go.
            tools: {look: {takes: 1s, cancels: true}}
            model: [{call: {look: {}}}, {say: Done., times: always}]
        """,
        right="{requests: 2}",
        wrong="{crash: CheckFailed}",
    ),
    Fault(
        name="results-as-they-come",
        says="The results of a batch go into the context in the order in which its tools end.",
        bug="D3",
        target=f"{_CALLS}._put",
        replace="self.answers[index] = ToolMessage",
        by="self.answers[len(self.answers)] = ToolMessage",
        circumstances=("calls in parallel", "the first one takes longer"),
        unusual="tool_execution.order: parallel",
        violates=("results-in-call-order",),
        witness="""
            prompt: Go.
            tool_execution: {order: parallel}
            tools: {slow: {returns: a, takes: 2s}, fast: {returns: b}}
            model: [{call: [{slow: {}}, {fast: {}}]}, {say: A., when: {contains: a}}, {say: B.}]
        """,
        right="{text: B., unused: 1}",
        wrong="{text: A., unused: 1}",
    ),
    Fault(
        name="first-result-ends-the-batch",
        says="When the first tool of a batch has returned, the others are stopped.",
        bug="D15",
        target=f"{_CALLS}._run_in_parallel",
        replace="return_when=asyncio.FIRST_EXCEPTION)",
        by="return_when=asyncio.FIRST_COMPLETED)",
        more=(
            Edit(
                f"{_CALLS}._run_in_parallel",
                "await asyncio.gather(*tasks, return_exceptions=True)",
                "await asyncio.gather(*tasks, return_exceptions=True)\n"
                '        await self.settle("Error: cancelled", timeouts)',
            ),
        ),
        circumstances=("calls in parallel", "one takes longer"),
        unusual="tool_execution.order: parallel",
        violates=("no-tool-cancelled-by-another",),
        witness="""
            prompt: Go.
            tool_execution: {order: parallel}
            tools: {slow: {returns: a, takes: 2s}, fast: {returns: b, takes: 1s}}
            model: [{call: [{slow: {}}, {fast: {}}]}, {say: Done.}]
        """,
        right="{elapsed: 2s, results: [b, a]}",
        wrong="{elapsed: 1s, results: [b]}",
    ),
    Fault(
        name="ran-and-is-reported-as-stopped",
        says="A tool that has run is answered as stopped if an abort comes in a hook after it.",
        bug="D9",
        target=f"{_CALLS}._run_on",
        replace="self._put(index, done.result, ran=True)  # the run ends",
        by="pass  # the run ends",
        circumstances=("a hook after a tool", "an abort in it"),
        violates=("answers-match-tool-runs",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tools: {pay: {returns: paid}}
            hooks: [{at: after_tool_call, takes: 3s, nth: 1}]
            model: [{call: {pay: {}}}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], errors_sent: 0}",
        wrong="{outcomes: [aborted, completed], errors_sent: 1}",
    ),
    Fault(
        name="second-call-after-an-abort",
        says="After an abort one more call of the batch is begun.",
        bug="D7",
        loop="pi@0.87.1",
        target=f"{_CALLS}._may_begin",
        replace="if number and self._is_stopped():",
        by="if number > 1 and self._is_stopped():",
        more=(
            Edit(
                f"{_CALLS}._guard",
                "if self._is_stopped():",
                "if self._is_stopped() and not self._started:",
            ),
        ),
        circumstances=("two calls, one after the other", "an abort in the first"),
        witness="""
            prompt: Go.
            abort: {at: 1s}
            tools: {wait: {takes: 5s, sequential: true}, pay: {returns: paid}}
            model: [{call: [{wait: {}}, {pay: {}}]}]
        """,
        right="{outcome: aborted, tools_run: [wait]}",
        wrong="{outcome: aborted, tools_run: [wait, pay]}",
    ),
    Fault(
        name="one-result-ends-the-run",
        says="A run ends when one result of a reply requests it, instead of all results.",
        bug="D13",
        loop="pi@0.87.1",
        target=f"{_CALLS}.terminated",
        replace="return bool(given) and self._ending.issuperset(given)",
        by="return bool(given) and bool(self._ending)",
        circumstances=("a result that asks for the end", "one that does not"),
        witness="""
            prompt: Go.
            tools: {done: {returns: ok, terminate: true}, look: {returns: a tree}}
            model: [{call: [{done: {}}, {look: {}}]}, {say: Done., times: always}]
        """,
        right="{requests: 2}",
        wrong="{requests: 1, unused: 1}",
    ),
    Fault(
        name="sequential-tool-runs-beside-others",
        says="A batch runs sequentially only if all of its tools are sequential.",
        target=f"{_CALLS}._is_parallel",
        replace="not any(",
        by="not all(",
        circumstances=("a sequential tool", "another tool in the same reply"),
        unusual="tool_execution.order: parallel",
        violates=("sequential-tools-do-not-overlap",),
        witness="""
            prompt: Go.
            tool_execution: {order: parallel}
            tools: {edit: {takes: 2s, sequential: true}, look: {takes: 2s}}
            model: [{call: [{edit: {}}, {look: {}}]}, {say: Done.}]
        """,
        right="{elapsed: 4s}",
        wrong="{elapsed: 2s}",
    ),
    Fault(
        name="third-call-does-not-wait",
        says="Of three calls that start when called, the third waits only for the first.",
        loop="opencode",
        target=f"{_RUNNING}.spawn",
        replace="self.tasks[-1] if self.tasks",
        by="self.tasks[0] if self.tasks",
        circumstances=("three calls in a reply", "tools that wait"),
        violates=("sequential-tools-do-not-overlap",),
        witness="""
            prompt: Go.
            tools: {look: {takes: 2s}}
            model: [{call: [{look: {}}, {look: {}}, {look: {}}]}, {say: Done.}]
        """,
        right="{elapsed: 6s}",
        wrong="{elapsed: 4s}",
    ),
    Fault(
        name="changed-arguments-are-not-checked",
        says="Arguments that a hook has made invalid reach the tool.",
        target=f"{_CALLS}._guard",
        replace="check = self._rules.check_changed",
        by="check = False",
        circumstances=("a hook before a tool", "arguments of a wrong type"),
        witness="""
            prompt: Go.
            tools: {pay: {parameters: {sum: integer}, returns: paid}}
            hooks: [{at: before_tool_call, arguments: {sum: much}}]
            model: [{call: {pay: {sum: 1}}}, {say: Done.}]
        """,
        right="{calls: []}",
        wrong="{calls: [{pay: {sum: much}}]}",
    ),
    Fault(
        name="retry-beside-a-running-tool",
        says="A failed reply is tried again while a tool that it started still runs.",
        bug="D10",
        target="simloop.engine.handlers:EffectHandlers._failed",
        replace="await self._tool_calls.finish_started()",
        by="pass",
        circumstances=("a tool that started when called", "a failure of the reply"),
        unusual="tool_execution.start: when-called",
        violates=("tool-ends-before-its-answer",),
        witness="""
            prompt: Go.
            tool_execution: {start: when-called}
            tools: {pay: {returns: paid, takes: 5s}}
            model: [{call: {pay: {}}, lost: mid-output}, {say: Done.}]
        """,
        right="{elapsed: 7s}",
        wrong="{elapsed: 5s}",
    ),
    Fault(
        name="failed-tool-is-not-an-error",
        says="The result of a tool that waited and then raised is not marked as an error.",
        bug="D20",
        target=f"{_PORT}.wait",
        replace="result = self._failure(tool, error)",
        by="result = ToolResult(self._failure(tool, error).text)",
        circumstances=("a tool that waits", "it raises"),
        violates=("scripted-results",),
        witness="""
            prompt: Go.
            tools: {look: {takes: 1s, raises: broken}}
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{errors_sent: 1}",
        wrong="{errors_sent: 0}",
    ),
    Fault(
        name="repeated-call-is-not-run",
        says="A call that repeats an earlier call of the reply gets the result of that call.",
        bug="A8",
        target=f"{_CALLS}._read",
        replace="call = self._calls[index]",
        by="call = self._calls[index]\n"
        "    for other, answer in zip(self._calls[:index], self.answers.values(), strict=False):\n"
        "        if answer and (other.name, other.arguments) == (call.name, call.arguments):\n"
        "            return ToolResult(answer.text, answer.is_error)",
        circumstances=("two equal calls in a reply",),
        witness="""
            prompt: Go.
            tools: {roll: {returns: "4"}}
            model: [{call: [{roll: {}}, {roll: {}}]}, {say: Done.}]
        """,
        right="{tools_run: [roll, roll]}",
        wrong="{tools_run: [roll]}",
    ),
    Fault(
        name="stopped-tools-are-not-waited-for",
        says="A tool that an abort stops goes on during the next run.",
        bug="F5",
        target=f"{_RUNNING}.stop",
        replace="await asyncio.gather(*self.tasks, return_exceptions=True)",
        by="await asyncio.sleep(0)",
        circumstances=(
            "a tool that started when called",
            "an abort while it runs",
            "a tool that outlives its cancellation",
        ),
        unusual="tool_execution.start: when-called",
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            tool_execution: {start: when-called}
            tools: {pay: {returns: paid, takes: 10s, outlives_cancel: 200ms}}
            model: [{call: {pay: {}}}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], elapsed: 1200ms}",
        wrong="{outcomes: [aborted, completed], elapsed: 1s}",
    ),
)
