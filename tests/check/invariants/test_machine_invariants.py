"""Each invariant on a machine is violated by an engine that is broken in one line."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

HANDLERS = "engine.handlers:EffectHandlers"
AGENT = "engine.machine_agent:_Engine"
RATE_LIMITED = {"http": {"status": 429}}
QUEUED = [{"say": "Also this.", "after": "text-delta"}]
SLOW = {"look": {"returns": "seen", "takes": "2s"}}
TWO = {"say": "I look twice.", "call": [{"look": {}}, {"look": {}}]}

CASES = [
    (
        "machine-is-deterministic",
        part(f"{AGENT}._drive_on", "NAMES[type(state)]", "'ready'"),
        scenario(DONE),
    ),
    (
        "effects-run-once",
        part(
            f"{HANDLERS}._call_model",
            "stream = self._send(system_prompt, tools, effect.note)",
            "stream = self._send(system_prompt, tools, effect.note) and "
            "self._send(system_prompt, tools, effect.note)",
        ),
        scenario(DONE, DONE),
    ),
    (
        "effects-run-once",
        part(
            f"{HANDLERS}._back_off",
            "self._recorder.record(entries.Backoff, effect.failures, delay_ns, self._error, asked)",
            "pass",
        ),
        scenario(RATE_LIMITED, DONE),
    ),
    (
        "tool-batches-complete",
        part(
            f"{HANDLERS}._refuse_tools",
            'await self._tool_calls.settle(f"Error: not executed, {cause}", self._timeouts)',
            "await self._tool_calls.run(self._step_tools, self._timeouts)",
        ),
        scenario({"call": {"look": {}}, "finish": "length"}, DONE),
    ),
    (
        "tool-batches-complete",
        part(
            "engine.tool_calls:ToolCalls.run",
            "if answer is not None:",
            "if answer is not None or number:",
        ),
        scenario(TWO, DONE),
    ),
    (
        "reply-signal-matches-reply",
        part(f"{HANDLERS}._replied", "calls, reply.steps)", "calls)"),
        scenario({"say": "Done.", "steps": 3}),
    ),
    (
        "reply-signal-matches-reply",
        part(f"{HANDLERS}._replied", "bool(words) and not words.isspace()", "bool(words)"),
        scenario({"say": " "}, DONE),
    ),
    (
        "context-signal-matches-context",
        part("kernel.policies:Compaction.is_over", "tokens >= self.trigger", "tokens > 10**9"),
        scenario(
            LOOK,
            LOOK,
            DONE,
            prompt="x" * 400,
            compaction={"window": 120, "keep_turns": 1, "strategy": "drop-oldest"},
        ),
    ),
    (
        "queue-signal-matches-queue",
        part(f"{HANDLERS}._step_closed", "not user.has()", "True"),
        scenario({"say": "Done.", "pace": {"per_part": "1s"}}, DONE, queue=QUEUED),
    ),
    (
        "stop-signals-match-stops",
        part(
            f"{HANDLERS}._call_model",
            "if given.blocked is not None:",
            "if True:",
            "self.cause = writable(given.blocked)",
            "pass",
        ),
        scenario(DONE, hooks=[{"at": "before_llm_call", "name": "watch"}]),
    ),
    (
        "stop-signals-match-stops",
        part(
            "engine.user_code:UserCode._apply_isolation",
            "self._cancellation.end_run(HookFailed())",
            "pass",
        ),
        scenario(
            DONE,
            hooks=[{"at": "before_llm_call", "raises": "no"}],
            hook_isolation={"on_failure": "fail-run"},
        ),
    ),
    (
        "end-matches-machine",
        part(f"{AGENT}._ended", "Ending(state.outcome, state.limit", "Ending(state.outcome, ''"),
        scenario(LOOK, DONE, limits={"max_steps": 1}),
    ),
    (
        "context-is-conserved",
        part(f"{HANDLERS}._commit", "(said, *answers)", "(said, *answers[::-1])"),
        scenario(TWO, DONE),
    ),
    (
        "context-is-conserved",
        part(f"{HANDLERS}.take_queued", "UserMessage(text)", "UserMessage(text.upper())"),
        scenario({"say": "Done.", "pace": {"per_part": "1s"}}, DONE, queue=QUEUED),
    ),
    (
        "request-size-matches-messages",
        part(
            "engine.context:History.append",
            "self.tokens += message_tokens(message, self.estimate)",
            "self.tokens = message_tokens(message, self.estimate)",
        ),
        scenario(LOOK, DONE),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_a_broken_engine_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
