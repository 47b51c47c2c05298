"""Faults of the agent that manages its own history and reads streams."""

from fault import Edit, Fault

_AGENT = "managed_agent:Managed"

FAULTS = (
    Fault(
        name="managed-history-splits-a-batch",
        says="Only one result of a dropped reply is dropped with it.",
        bug="B19",
        loop=_AGENT,
        target=f"{_AGENT}.shorten",
        replace="while end < len(self.messages) and isinstance",
        by="if end < len(self.messages) and isinstance",
        circumstances=("a reply with two calls", "a long conversation"),
        violates=("adjacent-results",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: [{look: {}}, {look: {}}]}, {call: {look: {}}, times: 4}, {say: Done.}]
        """,
        right="{sent: [..., user assistant tool assistant tool assistant tool assistant tool]}",
        wrong="{sent: [..., user tool assistant tool assistant tool assistant tool assistant"
        " tool]}",
    ),
    Fault(
        name="managed-question-dropped",
        says="The newest message of the user is dropped when it is the oldest message.",
        bug="B13",
        loop=_AGENT,
        target=f"{_AGENT}.shorten",
        replace="start = 1 if users[-1] == 0 else 0",
        by="start = 0",
        more=(
            Edit(
                f"{_AGENT}.shorten",
                "    users = [i for i, each in enumerate(self.messages)"
                " if isinstance(each, UserMessage)]\n    ",
                "",
            ),
        ),
        circumstances=("a long conversation", "many turns since the user spoke"),
        violates=("newest-user-message-sent",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, times: 5}, {say: Done.}]
        """,
        right="{sent: [..., user assistant tool assistant tool assistant tool assistant tool]}",
        wrong="{sent: [..., assistant tool assistant tool assistant tool assistant tool assistant"
        " tool]}",
    ),
    Fault(
        name="managed-texts-pile-up",
        says="The text of a reply begins with the texts of the replies before it.",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace='self.partial = ""',
        by="pass",
        circumstances=("a reply with text", "another one"),
        violates=("no-merged-replies",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{say: I look., call: {look: {}}}, {say: Again., call: {look: {}}}, {say: Done.}]
        """,
        right="{text: Done.}",
        wrong="{text: I look.Again.Done.}",
    ),
    Fault(
        name="managed-half-reply-kept",
        says="The text of a reply that failed stays in the context.",
        bug="D6",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="raise Failed(part.fault.message)",
        by="self.messages.append(AssistantMessage(self.partial))\n"
        "                        raise Failed(part.fault.message)",
        circumstances=("a failure after some text", "another prompt"),
        violates=("no-failed-replies-in-context",),
        witness="""
            prompt: Go.
            then: [Again.]
            model: [{say: I would, lost: mid-output}, {say: Done.}]
        """,
        right="{outcomes: [failed, completed], sent: [user, user user]}",
        wrong="{outcomes: [failed, completed], sent: [user, user assistant user]}",
    ),
    Fault(
        name="managed-unfinished-reply-counts",
        says="A stream that ends without a finish counts as a complete reply.",
        bug="C6",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="finish not in _WHOLE",
        by="finish not in (*_WHOLE, None)",
        violates=("completed-after-a-reply",),
        witness="""
            prompt: Go.
            model: [{say: First you take, unfinished: true}]
        """,
        right="{outcome: failed}",
        wrong="{outcome: completed, text: First you take}",
    ),
    Fault(
        name="managed-late-message-lost",
        says="A message that arrives with the last reply is taken from the queue and never sent.",
        bug="B12",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="waiting = waiting or world",
        by="waiting = world",
        circumstances=("the last reply", "a message to steer by"),
        violates=("queued-messages-delivered",),
        witness="""
            prompt: Go.
            queue: [{after: text-delta, say: And then?}]
            model: [{say: One.}, {say: Two., times: always}]
        """,
        right="{requests: 2, text: Two.}",
        wrong="{requests: 1, text: One., unused: 1}",
    ),
    Fault(
        name="managed-endless-rounds",
        says="A round whose calls all failed does not count, so a failing tool is called for ever.",
        bug="A7",
        loop=_AGENT,
        target=f"{_AGENT}.__call__",
        replace="for left in reversed(range(self.limits.max_steps)):",
        by="left = 1\n    while self.limits.max_steps > sum(\n"
        "        isinstance(each, ToolMessage) and not each.is_error for each in self.messages\n"
        "    ):",
        circumstances=("a tool that fails", "a model that goes on calling it"),
        violates=("agent-respects-its-limits",),
        witness="""
            prompt: Go.
            tools: {look: {raises: broken}}
            model: [{call: {look: {}}, times: 20}, {say: Done., times: always}]
        """,
        right="{outcome: failed, requests: 8, unused: 2}",
        wrong="{outcome: completed, requests: 21}",
    ),
    Fault(
        name="managed-results-by-name",
        says="The results of a reply are stored by tool name, so only the last one remains.",
        bug="D3",
        loop=_AGENT,
        target=f"{_AGENT}.act",
        replace="results[call.id] =",
        by="results[call.name] =",
        more=(Edit(f"{_AGENT}.act", "results.get(call.id, stopped)", "results.get(call.name)"),),
        circumstances=("two calls of one tool in a reply",),
        violates=("answered-calls",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: [{look: {}}, {look: {}}]}, {say: Done.}]
        """,
        right="{broken_pairs: []}",
        wrong="""{broken_pairs: ["request 2: call 'call-1' has no result",
            "request 2: call 'call-2' has more than one result"]}""",
    ),
    Fault(
        name="managed-ids-of-earlier-replies-come-again",
        says="The ids of calls are unique within a reply only.",
        bug="D14",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace='self.partial = ""',
        by='self.partial = ""\n    self.known.clear()',
        circumstances=("a call", "a call with the same id in a later reply"),
        violates=("unique-call-ids",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, ids: [a], times: 2}, {say: Done.}]
        """,
        right="{ids_run: [a, a.2]}",
        wrong="{ids_run: [a, a]}",
    ),
    Fault(
        name="managed-words-beside-calls-lost",
        says="The text of a reply with calls does not stay in the context.",
        bug="E4",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="return AssistantMessage(self.partial, tuple(calls))",
        by='return AssistantMessage("" if calls else self.partial, tuple(calls))',
        circumstances=("text", "a call in the same reply"),
        violates=("replies-with-calls-kept",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{say: I look., call: {look: {}}}, {say: Done.}]
        """,
        right="{words_sent: [I look.]}",
        wrong='{words_sent: [""]}',
    ),
    Fault(
        name="managed-calls-after-stop-vanish",
        says="The calls of a reply that ends with stop are dropped without a message.",
        bug="D12",
        loop=_AGENT,
        target=f"{_AGENT}.ask",
        replace="return AssistantMessage(self.partial, tuple(calls))",
        by="return AssistantMessage(\n        self.partial,"
        " tuple(calls) if finish is FinishReason.TOOL_CALLS else ())",
        circumstances=("a finish of stop", "a call"),
        violates=("completed-without-open-calls",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{say: I look., call: {look: {}}, finish: stop}, {say: Done., times: always}]
        """,
        right="{tools_run: [look], text: Done.}",
        wrong="{tools_run: [], text: I look., unused: 1}",
    ),
)
