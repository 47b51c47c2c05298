"""Faults of the context: its compaction, its size, and the queues."""

from fault import Fault

_HANDLERS = "simloop.engine.handlers:EffectHandlers"
_COMPACTION = "simloop.engine.compaction"

FAULTS = (
    Fault(
        name="newest-question-compacted",
        says="A compaction may remove the newest message of the user.",
        bug="B13",
        target=f"{_COMPACTION}:plan_cut",
        replace="if index != newest_user and not lasting:",
        by="if not lasting:",
        circumstances=("a compaction", "many turns since the user spoke"),
        violates=("newest-user-message-sent",),
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 1}
            tools: {look: {returns: The garden is green and the sky is blue and the sea is wide.}}
            summaries: [{say: S., times: always}]
            model: [{call: {look: {}}, times: 2}, {say: Done.}]
        """,
        right="{sent: [..., user summary assistant tool]}",
        wrong="{sent: [..., summary assistant tool]}",
    ),
    Fault(
        name="earlier-summary-dropped",
        says="A compaction that drops the oldest turns also drops the summary of an earlier one.",
        bug="B10",
        target=f"{_COMPACTION}:plan_cut",
        replace="if index != newest_user and not lasting:",
        by="if index != newest_user:",
        circumstances=("a compaction by a summary", "another one without"),
        violates=("summaries-come-from-model",),
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 1, trigger_percent: 60, target_percent: 10}
            tools: {look: {returns: The garden is green and the sky is blue and the sea is wide.}}
            summaries: [{say: S.}, {http: {status: 500}}]
            model: [{call: {look: {}}, times: 3}, {say: Done.}]
        """,
        right="{sent: [..., user summary assistant tool]}",
        wrong="{sent: [..., user assistant tool]}",
    ),
    Fault(
        name="second-result-is-a-turn",
        says="The second result of a reply counts as a turn, so it loses its call in a compaction.",
        bug="B19",
        target=f"{_COMPACTION}:turns_of",
        replace="if isinstance(message, ToolMessage) and turns:",
        by="if isinstance(message, ToolMessage) and turns and len(turns[-1]) < 2:",
        circumstances=("two calls in a reply", "a compaction between their results"),
        violates=("adjacent-results",),
        witness="""
            prompt: Go.
            compaction: {window: 90, target_percent: 60, keep_turns: 1, strategy: drop-oldest}
            tools: {look: {returns: The garden is green and the sky is blue and the sea is wide.}}
            model: [{call: [{look: {}}, {look: {}}]}, {call: {look: {}}}, {say: Done.}]
        """,
        right="{sent: [..., user assistant tool]}",
        wrong="{sent: [..., user tool assistant tool]}",
    ),
    Fault(
        name="no-gain-is-a-gain",
        says="A compaction that does not change the size counts as one that helped.",
        bug="B5",
        target=f"{_COMPACTION}:Compacted.shrunk",
        replace="self.tokens_after < self.tokens_before",
        by="self.tokens_after <= self.tokens_before",
        circumstances=("a forced compaction", "nothing to remove"),
        violates=("compaction-sizes-match-context",),
        witness="""
            prompt: Go.
            model: [{say: The, finish: length}, {say: Done., times: always}]
        """,
        right="{outcome: context-limit, requests: 1, unused: 1}",
        wrong="{outcome: completed, requests: 2}",
    ),
    Fault(
        name="longer-summary-accepted",
        says="A summary is accepted although it is longer than the messages that it replaces.",
        bug="B4",
        target=f"{_COMPACTION}:Compactor._summarise",
        replace="if shorter.tokens >= history.tokens:",
        by="if not shorter.messages:",
        circumstances=("a compaction", "a long summary"),
        violates=("compaction-sizes-match-context",),
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 1}
            history: [{user: Hello hello hello hello hello hello hello hello hello hello hello},
              {assistant: Hello hello hello hello hello hello hello hello hello hello hello}]
            summaries: [{say: "They said hello to one another and then hello once again, and so on,
              with a great many words that nobody would ever want to read in any summary at all."}]
            model: [{say: Done.}]
        """,
        right="{sent: [user assistant user, assistant user]}",
        wrong="{sent: [user assistant user, summary user]}",
    ),
    Fault(
        name="cut-summary-stored",
        says="A summary that was cut off replaces the messages.",
        bug="B11",
        target=f"{_COMPACTION}:Compactor._ask_for_summary",
        replace="reply.finish not in (FinishReason.STOP, FinishReason.OTHER) or not text",
        by="not text",
        circumstances=("a compaction", "a summary that is cut off"),
        violates=("summaries-come-from-model",),
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 1}
            history: [{user: Hello hello hello hello hello hello hello hello hello hello hello},
              {assistant: Hello hello hello hello hello hello hello hello hello hello hello}]
            summaries: [{say: They, finish: length}]
            model: [{say: Done.}]
        """,
        right="{sent: [user assistant user, assistant user]}",
        wrong="{sent: [user assistant user, summary user]}",
    ),
    Fault(
        name="size-before-compaction-stays",
        says="The measured size still includes the messages that a compaction removed.",
        bug="B8",
        target="simloop.engine.context:History.replace",
        replace="self.tokens = 0",
        by='self.tokens = getattr(self, "tokens", 0)',
        circumstances=("a compaction", "a measurement after it"),
        violates=("compaction-sizes-match-context",),
        witness="""
            prompt: Go.
            compaction: {window: 60, keep_turns: 1, strategy: drop-oldest}
            history: [{user: Hello hello hello hello hello hello hello hello hello hello hello},
              {assistant: Hello hello hello hello hello hello hello hello hello hello hello}]
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{counters: {compaction_attempts: 1}}",
        wrong="{counters: {compaction_attempts: 2}}",
    ),
    Fault(
        name="overflow-forgets-the-question",
        says="A restart after an overflow loses the newest prompt if it is the second one.",
        bug="B14",
        loop="opencode@1.18.34",
        target=f"{_COMPACTION}:Compactor.restart",
        replace="if again else UserMessage(otherwise)",
        by="if len(users) > 2 else UserMessage(otherwise)",
        circumstances=("an overflow", "exactly two messages of the user"),
        violates=("context-is-conserved",),
        witness="""
            prompt: Go.
            then: [And then?]
            summaries: [{say: S.}]
            model:
              - say: One.
              - http: {status: 413}
              - {say: Done., when: {contains: Go on}}
              - {say: Two.}
        """,
        right="{text: Two., unused: 1}",
        wrong="{text: Done., unused: 1}",
    ),
    Fault(
        name="all-but-the-newest-message-lost",
        says="If several messages are queued, only the newest is sent.",
        bug="B12",
        target=f"{_HANDLERS}.take_queued",
        replace="self._user.take(effect.queue, one=effect.one)",
        by="self._user.take(effect.queue, one=effect.one)[-1:]",
        circumstances=("a queued message", "another one in the same step"),
        violates=("context-is-conserved",),
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
        name="follow-ups-are-stuck",
        says="A follow-up is not taken at the end of the run, and waits for the next prompt.",
        bug="B12",
        loop="pi",
        target=f"{_HANDLERS}._step_closed",
        replace="user.has(Queue.FOLLOW_UP)",
        by="user.has(Queue.FOLLOW_UP) and user.has(Queue.STEERING)",
        violates=("queue-signal-matches-queue",),
        witness="""
            prompt: Go.
            queue: [{after: finish, say: And then?, follow_up: true}]
            model: [{say: One.}, {say: Two., times: always}]
        """,
        right="{requests: 2, text: Two.}",
        wrong="{requests: 1, text: One., unused: 1}",
    ),
    Fault(
        name="queues-emptied-one-by-one",
        says="Messages are taken queue by queue, not in the order in which they were sent.",
        target="simloop.world.user_port:UserPort.take",
        replace="sorted(message for each in queues for message in each)",
        by="[message for each in queues for message in each]",
        circumstances=("a follow-up", "a message to steer by after it"),
        violates=("context-is-conserved",),
        witness="""
            prompt: Go.
            queue:
              - {after: tool-call, say: One., follow_up: true}
              - {after: finish, say: Two.}
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}}, {say: Yes., when: {contains: One}},
              {say: Done., when: {contains: Two}}]
        """,
        right="{text: Done., unused: 1}",
        wrong="{text: Yes., unused: 1}",
    ),
)
