"""A run of a machine as a scenario that makes the simulator take the same transitions.

A step that no scenario can show is refused, not left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from simloop.errors import ScenarioError
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.policies import HookIsolation
from simloop.kernel.retry import RETRYABLE
from simloop.kernel.states import Finished
from simloop.messages import FinishReason
from simloop.prove.graph import Lasso, Step
from simloop.scenario.designs import LoopOptions
from simloop.scenario.expect import Expect
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Context, Queued, Scenario, ScriptedHook, ScriptedTool, Trigger
from simloop.world.faults import FAULTS

T = TypeVar("T")

_ROUNDS = 25
"""The number of times that a lasso is repeated before it is called a runaway."""
_WALL_CLOCK_MS = 500
_TOOL, _HANGING, _ENDING = "work", "wait_for_ever", "say_that_all_is_done"
_TOOLS = {
    _TOOL: ScriptedTool(returns="done"),
    _HANGING: ScriptedTool(hangs=True),
    _ENDING: ScriptedTool(returns="done", terminate=True),
}


class Explored(NamedTuple):
    """The design that was explored, which a scenario of it states."""

    loop: str
    limits: Limits = Limits()
    options: LoopOptions = LoopOptions()


def scenario_of_ending(steps: Sequence[Step], of: Explored) -> Scenario:
    """Return a scenario that goes through `steps`, which end in Finished, and expects that end.

    Raises ScenarioError if no scripted world can lead to these steps.
    """
    ended = steps[-1].run.state
    assert isinstance(ended, Finished)
    limit = f", by {ended.limit}" if ended.limit else ""
    return _Script(steps).scenario(
        of,
        title=f"The shortest run of {of.loop} that ends as {ended.outcome}{limit}",
        expect=Expect(outcome=ended.outcome, limit=ended.limit),
    )


def scenario_of_lasso(lasso: Lasso, of: Explored) -> Scenario:
    """Return a scenario that enters `lasso`, repeats it until it is a runaway, and expects that.

    Raises ScenarioError if no scripted world can lead to these steps.
    """
    # One more reply: the requests of the last transition are performed before the run is cut off.
    steps = (*lasso.prefix, *(lasso.cycle * _ROUNDS), lasso.cycle[0])
    return _Script(steps).scenario(
        of,
        title=f"A run of {of.loop} that never ends: {len(lasso.cycle)} transitions, over and over",
        max_transitions=len(steps) - 1,
        expect=Expect(error="RunawayRun"),
    )


class _Script:
    """Collects the behaviour of the world, one signal after the other."""

    def __init__(self, steps: Iterable[Step]) -> None:
        """Take one step after the other. Each signal answers the requests before it."""
        self._replies: list[Reply] = []
        self._hooks: list[ScriptedHook] = []
        self._queue: list[Queued] = []
        self._over: list[bool] = []
        self._shrunk: list[bool] = []
        self._abort: Trigger | None = None
        self._wall_clock = False
        self._transitions = 0
        self._seen = Counter[type[Effect]]()
        asked: tuple[Effect, ...] = ()
        for step in steps:
            self._seen.update(map(type, asked))
            self._answer(step.signal, asked)
            self._transitions += 1
            asked = step.asked

    def scenario(self, of: Explored, **rest: Any) -> Scenario:
        """Return the whole scenario. Each context check is scripted, because real sizes grow."""
        limits = of.limits
        if self._wall_clock:
            limits = replace(limits, max_wall_clock_ms=_WALL_CLOCK_MS)
        calls = {name for reply in self._replies for name in reply.call}
        context = Context(over=_shortened(self._over), shrunk=_shortened(self._shrunk))
        return Scenario(
            prompt="Do the work.",
            loop=of.loop,
            loops=of.options,
            limits=limits,
            tools={name: tool for name, tool in _TOOLS.items() if name in calls},
            model=_repeated(self._replies),
            hooks=self._hooks,
            queue=self._queue,
            abort=self._abort,
            context=context if self._over or self._shrunk else None,
            hook_isolation=HookIsolation(on_failure="fail-run")
            if any(hook.raises for hook in self._hooks)
            else None,
            **rest,
        )

    def _answer(self, signal: signals.Signal, asked: tuple[Effect, ...]) -> None:
        nth = self._transitions
        match signal:
            case signals.ContextMeasured(over=over):
                self._over.append(over)
            case signals.ContextCompacted(shrunk=shrunk):
                self._shrunk.append(shrunk)
            case signals.ModelReplied():
                self._replies.append(_reply(signal))
            case signals.ModelFailed(error=error, retryable=retryable):
                if not any(isinstance(e, effects.CallModel) and e.aborted for e in asked):
                    self._replies.append(_failing(error, retryable=retryable))
            case signals.ToolsReturned(blocked=True):
                self._hook("before_tool_call", effects.RunTools, block="Not allowed.")
            case signals.ToolsReturned(terminate=True):
                self._call_instead(_ENDING)
            case signals.StepClosed(steering=steering, follow_up=follow_up):
                for later in (False,) * steering + (True,) * follow_up:
                    said = Queued(after="transition", nth=nth, say="And more.", follow_up=later)
                    self._queue.append(said)
            case signals.HookFailed():
                self._fail_hook(asked)
            case signals.CallBlocked():
                self._hook("before_llm_call", effects.CallModel, block="Not now.")
            case signals.AbortRequested():
                if self._abort is not None:
                    raise ScenarioError("in no scenario does the user abort twice")
                self._abort = Trigger(after="transition", nth=nth)
            case signals.WallClockExpired():
                self._let_time_pass(asked)
            case _:
                pass  # Began, BackoffElapsed and plain ToolsReturned come by themselves

    def _hook(self, at: Any, effect: type[Effect], **does: Any) -> None:
        # A hook that acts prevents calls of later hooks, and each hook counts its own calls.
        before = sum(hook.at == at for hook in self._hooks)
        self._hooks.append(ScriptedHook(at=at, nth=self._seen[effect] - before, **does))

    def _fail_hook(self, asked: tuple[Effect, ...]) -> None:
        for kind, at in (
            (effects.CallModel, "before_llm_call"),
            (effects.RunTools, "before_tool_call"),
            (effects.CloseStep, "after_llm_call"),
        ):
            if any(isinstance(effect, kind) for effect in asked):
                self._hook(at, kind, raises="broken")

    def _let_time_pass(self, asked: tuple[Effect, ...]) -> None:
        self._wall_clock = True
        if any(isinstance(effect, effects.CallModel) for effect in asked):
            self._replies.append(Reply(stall="before-headers"))
        elif any(isinstance(effect, effects.RunTools) for effect in asked):
            self._call_instead(_HANGING)
        elif not any(isinstance(effect, effects.Backoff) for effect in asked):
            raise ScenarioError("no scenario can let the time run out where nothing takes time")

    def _call_instead(self, tool: str) -> None:
        self._replies[-1] = self._replies[-1].model_copy(update={"call": {tool: {}}})


def _reply(signal: signals.ModelReplied) -> Reply:
    """Return a reply that gives `signal` in the simulator. Raises ScenarioError if none does."""
    interrupted = signal.finish is FinishReason.INTERRUPTED
    if interrupted and signal.steps > 1:
        raise ScenarioError("no scenario lets a reply that breaks off report its steps")
    finish: str | None = str(signal.finish)
    if signal.finish is FinishReason.OTHER:
        finish = "unheard-of"
    usual = FinishReason.TOOL_CALLS if signal.calls else FinishReason.STOP
    if interrupted or (signal.finish is usual and (signal.text or signal.calls)):
        finish = None
    return Reply(
        say="Some words." if signal.text else "",
        call={_TOOL: {}} if signal.calls else {},
        finish=finish,
        steps=signal.steps,
        unfinished=interrupted,
    )


def _failing(error: ErrorClass, *, retryable: bool) -> Reply:
    """Return a reply that fails as `error`; the retry policy says whether it is tried again."""
    fault = next((fault for fault in FAULTS if fault.error is error), None)
    if fault is None or retryable is not (error in RETRYABLE):
        kind = "retryable" if retryable else "not retryable"
        raise ScenarioError(f"no scenario makes a model call fail as {error}, {kind}")
    return Reply(**fault.keys)


def _repeated(replies: list[Reply]) -> list[Reply]:
    once = _shortened(replies)
    if len(replies) - len(once) < _ROUNDS // 2:
        return replies
    return [*once[:-1], once[-1].model_copy(update={"times": "always"})]


def _shortened(words: list[T]) -> list[T]:
    last = len(words)
    while last > 1 and words[last - 1] == words[last - 2]:
        last -= 1
    return words[:last]
