"""Faults of the course of a run and of what is left of it for the next one."""

from fault import Fault

_HANDLERS = "simloop.engine.handlers:EffectHandlers"

FAULTS = (
    Fault(
        name="second-run-has-fewer-errors",
        says="The next prompt begins with the error count of the run before it.",
        bug="E6",
        target="simloop.engine.machine_agent:_Engine.drive",
        replace="self._run = self._machine.start()",
        by='before = getattr(self, "_run", None)\n    self._run = self._machine.start()\n'
        "    if before is not None:\n"
        "        self._run = type(before)(self._run.state, before.error_count)",
        circumstances=("a failure in one run", "another one in the next"),
        violates=("counters-match-trace",),
        witness="""
            prompt: Go.
            then: [Again.]
            model: [{http: {status: 500}}, {say: One.}, {http: {status: 500}}, {say: Two.}]
        """,
        right="{counters: {error_count: 1}, backoffs: [2s, 2s]}",
        wrong="{counters: {error_count: 2}, backoffs: [2s, 4s]}",
    ),
    Fault(
        name="text-of-an-earlier-run",
        says="A run in which the model said nothing ends with the last text of the run before it.",
        target=f"{_HANDLERS}.begin",
        replace='self.said = self.text = ""',
        by='self.said = ""; self.text = getattr(self, "text", "")',
        circumstances=("a run with an answer", "a run without one"),
        violates=("run-text-matches-last-reply",),
        witness="""
            prompt: Go.
            then: [Again.]
            model: [{say: One.}, {http: {status: 401}}]
        """,
        right='{outcomes: [completed, failed], text: ""}',
        wrong="{outcomes: [completed, failed], text: One.}",
    ),
    Fault(
        name="last-words-lost-by-an-abort",
        says="The text of an aborted reply is lost if an earlier reply of the run has some.",
        bug="E4",
        target=f"{_HANDLERS}.finish",
        replace="self.text = reply.text or self.text",
        by="self.text = self.text or reply.text",
        circumstances=("a reply with text", "an abort in a later one"),
        violates=("run-text-matches-last-reply",),
        witness="""
            prompt: Go.
            abort: {at: 3s}
            tools: {look: {returns: ok}}
            model:
              - {say: I look., call: {look: {}}}
              - {say: [I see, a lake.], pace: {first_part: 2s, per_part: 2s}}
        """,
        right="{outcome: aborted, text: I see}",
        wrong="{outcome: aborted, text: I look.}",
    ),
    Fault(
        name="stopped-tools-forgotten",
        says="A step that an abort stops stays in the context only if its reply has text.",
        bug="D9",
        target=f"{_HANDLERS}.finish",
        replace="elif effect.keep and (reply.text or reply.calls):",
        by="elif effect.keep and reply.text:",
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
)
