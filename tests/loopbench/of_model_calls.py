"""Faults of model calls: their limits, ids and counts, and the replies that fail."""

from fault import Fault

_HANDLERS = "simloop.engine.handlers:EffectHandlers"
_CALLS = "simloop.engine.model_calls:ModelCalls"
_IDS = "simloop.engine.model_calls:CallIds"
_REPLY = "simloop.engine.model_calls:ReplySoFar"

FAULTS = (
    Fault(
        name="timeout-moves-with-progress",
        says="The limit on a whole model call begins anew with each part.",
        target=f"{_CALLS}._read_parts",
        replace="until_ns = whole_ns if",
        by="until_ns = timeouts.loop.now_ns + self._whole_ns if",
        circumstances=("a slow stream", "a limit between its parts and its whole"),
        unusual="model_call_timeout: 5s",
        bug="C12",
        violates=("model-call-timeouts",),
        witness="""
            prompt: Go.
            limits: {model_call_timeout: 5s, max_error_count: 1}
            model: [{say: [a, b, c], pace: {first_part: 3s, per_part: 3s}}]
        """,
        right="{outcome: too-many-errors, elapsed: 5s}",
        wrong="{outcome: completed, elapsed: 12s}",
    ),
    Fault(
        name="each-part-has-the-first-limit",
        says="The limit on the first part ends a stream that pauses later.",
        target=f"{_CALLS}._read_parts",
        replace="until_ns = whole_ns if",
        by="until_ns = min(whole_ns, timeouts.loop.now_ns + self._first_ns) if",
        circumstances=("a pause after the first part", "a shorter limit on the first"),
        unusual="first_part_timeout: 2s",
        bug="C12",
        violates=("model-call-timeouts",),
        witness="""
            prompt: Go.
            limits: {first_part_timeout: 2s}
            model: [{say: [a, b], pace: {first_part: 1s, per_part: 3s}}]
        """,
        right="{outcome: completed, requests: 1, elapsed: 7s}",
        wrong="{error: ScriptExhausted, requests: 2}",
    ),
    Fault(
        name="summary-has-no-limit",
        says="The limit on model calls does not apply to summaries, so a stalled summary hangs.",
        bug="B16",
        target=f"{_CALLS}._read_parts",
        replace="start_ns + self._first_ns, start_ns + self._whole_ns",
        by="start_ns + self._first_ns, start_ns + self._whole_ns\n"
        "    if reply.request.purpose == 'summary':\n"
        "        first_ns, whole_ns = first_ns << 12, whole_ns << 12",
        circumstances=("a compaction", "a summary that stalls"),
        witness="""
            prompt: [Go.]
            compaction: {window: 60, keep_turns: 1}
            history: [{user: "Hello hello hello hello hello hello hello hello hello hello hello"},
              {assistant: "Hello hello hello hello hello hello hello hello hello hello hello"}]
            summaries: [{stall: before-headers}]
            model: [{say: Done.}]
        """.replace("[Go.]", "Go."),
        right="{elapsed: 180s}",
        wrong="{elapsed: 737280s}",
    ),
    Fault(
        name="free-step",
        says="A reply that reports no steps costs no step, so nothing bounds its repetition.",
        target=f"{_REPLY}.keep",
        replace="max(1, part.steps)",
        by="part.steps",
        unusual="max_steps: 2",
        circumstances=("replies that report no step", "a step limit"),
        bug="E1",
        violates=("reply-signal-matches-reply",),
        witness="""
            prompt: Go.
            limits: {max_steps: 2}
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, steps: 0, times: 3}, {say: Done., times: always}]
        """,
        right="{outcome: max-steps, requests: 2, unused: 2}",
        wrong="{outcome: completed, requests: 4}",
    ),
    Fault(
        name="ids-of-the-past-come-again",
        says="A call may have the id of a call in the history that the conversation began with.",
        bug="D14",
        target=f"{_IDS}.__init__",
        replace="{call.id: 1 for call in message.calls}",
        by="{call.id: 1 for call in message.calls if not call.id}",
        circumstances=("a history with calls", "a repeated id"),
        violates=("unique-call-ids",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            history: [{user: Look.}, {call: {look: {}}}, {tool: ok}, {assistant: I see.}]
            model: [{call: {look: {}}, ids: [past-1]}, {say: Done.}]
        """,
        right="{broken_pairs: []}",
        wrong="""{broken_pairs: ["request 2: call 'past-1' shares its id with another call"]}""",
    ),
    Fault(
        name="empty-ids-stay",
        says="A call without an id keeps its empty id if it is the first one.",
        bug="D14",
        target=f"{_IDS}.own",
        replace="if not unique or unique in used:",
        by="if unique in used:",
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            model: [{call: {look: {}}, ids: [""]}, {say: Done.}]
        """,
        right='{ids_run: ["call#2"]}',
        wrong='{ids_run: [""]}',
    ),
    Fault(
        name="half-reply-in-the-context",
        says="The text of a reply that broke off stays in the context of the retry.",
        bug="D6",
        target=f"{_HANDLERS}._failed",
        replace="self._reply = None",
        by="self._reply = None\n    if reply.text:\n"
        "        self.transcript.add([AssistantMessage(reply.text)])",
        circumstances=("some text", "a failure after it"),
        violates=("last-message-role",),
        witness="""
            prompt: Go.
            model: [{say: I would, lost: mid-output}, {say: Done.}]
        """,
        right="{sent: [user, user]}",
        wrong="{sent: [user, user assistant]}",
    ),
    Fault(
        name="failed-reply-kept-by-an-abort",
        says="A reply that failed is kept if the run is aborted in the wait before its retry.",
        bug="D6",
        target=f"{_HANDLERS}._failed",
        replace="self._reply = None",
        by="pass",
        circumstances=("a failure after some text", "an abort before the retry", "another prompt"),
        violates=("no-failed-replies-in-context",),
        witness="""
            prompt: Go.
            then: [Again.]
            abort: {at: 1s}
            model: [{say: I would, lost: mid-output}, {say: Done.}]
        """,
        right="{outcomes: [aborted, completed], sent: [user, user user]}",
        wrong="{outcomes: [aborted, completed], sent: [user, user assistant user]}",
    ),
)
