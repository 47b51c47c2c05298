"""One run of an async test: its body is the agent of a scenario.

Not here: collecting tests, their fixtures and their reports (pytest_plugin). The rule to keep: the
exception of the body leaves as it was raised, unless simloop has found an error of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from simloop.errors import CheckFailed, ScriptUnused, SimloopError
from simloop.kernel.limits import MAX_TRANSITIONS
from simloop.messages import Outcome
from simloop.runs.prepared import PreparedRun
from simloop.runs.prompt import UNSEEN
from simloop.runs.result import Result
from simloop.runs.simulation import Simulation
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.virtual.simulate import running_loop
from simloop.world.user_errors import message_of

OF_A_TEST = "the fixtures of its test"
"""Python code that the run of an async test needs, as the header of its trace names it."""
OF_A_PROMPT = (
    "newest-user-message-sent", "completed-after-a-reply", "completed-after-a-complete-reply",
    "completed-without-open-calls", "run-text-matches-last-reply", "no-failure-after-an-answer",
)  # fmt: skip
"""The invariants that relate the prompt and the end of a run to its requests and replies."""


class AsyncTest:
    """A run of `body` with one seed. `name` is `module:function`, the name of the loop."""

    def __init__(
        self,
        body: Callable[[], Awaitable[object]],
        name: str,
        *,
        seed: int = 0,
        shuffle_ties: bool = False,
        replies: Sequence[Reply] = (),
        max_transitions: int = MAX_TRANSITIONS,
    ) -> None:
        self._body = body
        self._error: BaseException | None = None
        self.violates: dict[str, str] = {}
        """The invariants that the test says its agent violates, each with the reason."""
        self.broken_pairs: tuple[str, ...] = ()
        """The calls without exactly one result that the test says its agent sends."""
        scenario = Scenario(
            prompt=name,
            loop=name,
            model=[*replies],
            shuffle_ties=shuffle_ties,
            max_transitions=max_transitions,
        )
        agent: Any = _agent(self._answer, name)
        self.simulation = Simulation(scenario, seed=seed, loop=agent, keep_bodies=True)
        trace = self.simulation.trace
        python = (*trace.header.python, OF_A_TEST)
        trace.header = msgspec.structs.replace(trace.header, python=python)

    @property
    def prepared(self) -> PreparedRun:
        """Return the run, which has the trace and the script."""
        return self.simulation.prepared

    def run(self) -> Result:
        """Run the body on the virtual clock. Raises what it raises, and the errors of `run`."""
        __tracebackhide__ = True
        try:
            result = self.simulation.run()
        except ScriptUnused:
            if self._failure is None:
                raise
        except SimloopError as error:
            error.__context__ = error.__context__ or self._error
            raise
        failure = self._failure
        if isinstance(failure, KeyboardInterrupt):  # pytest would end the session
            message = "the test raised KeyboardInterrupt, and nobody pressed Ctrl-C"
            raise CheckFailed(message, hint="raise another exception") from failure
        if failure is not None:
            raise failure
        return result

    @property
    def _failure(self) -> BaseException | None:
        """Return the exception of the body, or of one of its tasks that no code looked at."""
        raised, endings = self.prepared.exceptions, self.prepared.endings
        if self._error is None and endings and endings[-1].outcome is Outcome.FAILED:
            return raised[-1].error  # of a task that ended the program, or of a cancellation
        unseen = (each.error for each in raised if each.where == UNSEEN)
        return self._error or next(unseen, None)

    async def _answer(self) -> None:
        try:
            await self._body()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the outcomes of pytest are no Exception
            if running_loop().is_ctrl_c(error):
                raise
            self._error = error
            if isinstance(error, SimloopError) or not isinstance(error, Exception):
                raise _as_exception(error) from None  # so that the prompt has an end
            raise


def _as_exception(error: BaseException) -> Exception:
    """Return an exception that reads like `error`, with the first line of its message."""
    kind = type(type(error).__name__, (Exception,), {})
    made: Exception = kind(message_of(error).partition("\n")[0])
    return made


def _agent(answer: Callable[[], Awaitable[None]], name: str) -> Callable[..., Any]:
    """Return the agent that answers the one prompt of a test, which is the name of the test."""

    async def answer_prompt(_: str) -> None:
        await answer()

    agent: Any = answer_prompt
    agent.__module__, _, agent.__qualname__ = name.partition(":")
    agent.deviations = dict.fromkeys(OF_A_PROMPT, "a test runs any number of agents, or none")
    return agent  # type: ignore[no-any-return]
