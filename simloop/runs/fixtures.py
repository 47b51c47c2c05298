"""Tests that use simloop: the run of an async test, its fixtures, and the types of all fixtures.

Nothing here needs pytest; the fixtures themselves are in pytest_plugin.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, cast

import msgspec

from simloop.errors import ExpectationFailed, ScenarioError, ScriptUnused, SimloopError
from simloop.messages import Outcome, Request
from simloop.runs.options import RunOptions
from simloop.runs.prompt import UNSEEN
from simloop.runs.result import Result, mismatches_so_far
from simloop.runs.run import Simulation
from simloop.runs.scripts import Scripts
from simloop.scenario import fields, loader, people
from simloop.scenario.expect import ExpectedTraffic
from simloop.scenario.programs import Program, check_given
from simloop.scenario.replies import Party, PartyCondition, Reply
from simloop.scenario.schema import Scenario
from simloop.scenario.services import Route, WhenAsked
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.virtual.simulate import running_loop
from simloop.world import fake_model, faults, http, model_port, tools_port, user_functions
from simloop.world.program_scripts import ProgramCall, ProgramFunction, ProgramScript
from simloop.world.services import Service
from simloop.world.wire_options import WireOptions
from simloop.world.world import current_world

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

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
        self, body: Callable[[], Awaitable[object]], name: str, *, seed: int = 0,
        services: Mapping[str, Callable[..., Any]] | None = None,
        **stated: Any,  # keys of its scenario, such as `shuffle_ties`
    ) -> None:  # fmt: skip
        self._body = body
        self._error: BaseException | None = None
        self.violates: dict[str, str] = {}
        """The invariants that the test says its agent violates, each with the reason."""
        scenario = Scenario(prompt=name, loop=name, **stated)

        async def answer(_: str) -> None:
            await self._answer()

        agent: Any = answer
        agent.__module__, _, agent.__qualname__ = name.partition(":")
        agent.deviations = dict.fromkeys(OF_A_PROMPT, "a test runs any number of agents, or none")
        given = {"seed": seed, "loop": agent, "keep_bodies": True, "services": services or {}}
        self.simulation = Simulation(scenario, **cast("RunOptions", given))
        trace = self.simulation.trace
        python = (*trace.header.python, OF_A_TEST)
        trace.header = msgspec.structs.replace(trace.header, python=python)

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
        if self._failure is not None:
            raise self._failure
        if self.simulation.scenario.unscripted == "fail":
            result.expect(refused=[])
        return result

    @property
    def _failure(self) -> BaseException | None:
        """Return the exception of the body, or of one of its tasks that no code looked at."""
        raised, endings = self.simulation.exceptions, self.simulation.endings
        if self._error is None and endings and endings[-1].outcome is Outcome.FAILED:
            return raised[-1].error  # of a task that ended the program, or of a cancellation
        return self._error or next((each.error for each in raised if each.where == UNSEEN), None)

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
                kind: Any = type(type(error).__name__, (Exception,), {})
                said = user_functions.message_of(error).partition("\n")[0]
                raise kind(said) from None  # an end of the prompt
            raise


class _OfTest:
    """A fixture that begins anew with each run of its test, with what was added before."""

    _hint = "use `sim` in the body of the test"

    def __init__(self) -> None:
        self._test: AsyncTest | None = None
        self._before: list[Callable[[Scripts], object]] = []

    def begin(self, test: AsyncTest) -> None:
        self._test = test
        for add in self._before:
            add(test.simulation.scripts)

    def _add(self, add: Callable[[Scripts], object]) -> None:
        if self._test is None:
            self._before.append(add)
        else:
            add(self._simulation.scripts)

    @property
    def _begun(self) -> AsyncTest:
        if self._test is None:
            raise ScenarioError("the test has not begun", hint=self._hint)
        return self._test

    @property
    def _simulation(self) -> Simulation:
        return self._begun.simulation


class RouteKeys(TypedDict, total=False):
    """The keys of a route of a service, besides its method and its path: see `Route`."""

    status: int
    json: Any
    text: str
    pieces: list[str]
    headers: dict[str, str]
    takes: str
    per_piece: str
    lost: faults.FaultPlace
    stall: faults.FaultPlace
    when: Mapping[str, Any] | WhenAsked
    times: int | Literal["always"]


class AnswerRequests(Protocol):
    """Answers the requests of one HTTP method to a path, with the keys of a route."""

    def __call__(self, path: str, **answer: Unpack[RouteKeys]) -> None:
        """Answer them: `orders.get("/orders/{id}", json={"state": "shipped"})`."""


class SimService:
    """A service in the simulation of one test: its script, and what it was asked.

    `get`, `post` and so on answer the requests of that HTTP method, and `any` those of every one.
    The first answer that matches and is not used up is sent.
    """

    def __init__(self, add: Callable[[Route], object], seen: Callable[[], Service]) -> None:
        def answering(method: str) -> AnswerRequests:
            def answer(path: str, **answer: Unpack[RouteKeys]) -> None:
                keys: dict[str, Any] = {method: path, **answer}
                add(Route(**keys))

            return answer

        self.get, self.post, self.put = map(answering, ("get", "post", "put"))
        self.patch, self.delete = map(answering, ("patch", "delete"))
        self.head, self.options, self.any = map(answering, ("head", "options", "any"))
        self._seen = seen

    @property
    def requests(self) -> list[http.HttpRequest]:
        return list(self._seen().requests)


class SimProgram(msgspec.Struct):
    """A program in the simulation of one test."""

    _made: Sequence[ProgramScript]

    @property
    def calls(self) -> list[ProgramCall]:
        """Return the words and the standard input of each call in this run of the test."""
        return self._made[-1].calls if self._made else []


class Sim(_OfTest):
    """The run of an async test."""

    def service(self, address: str, app: Callable[..., Any] | None = None) -> SimService:
        """Return the service at an address, to be scripted in a fixture or in the body of the test.

            orders = sim.service("https://orders.example/api")
            orders.get("/orders/{id}", json={"state": "shipped"}, takes="80ms")
            ...
            assert [each.path for each in orders.requests] == ["/api/orders/7"]

        Answers that a fixture gives come after those of the body, which so can replace them.

        A request that none of its answers matches gets status 404, and is listed as refused. With
        `app`, an ASGI app, a WSGI app or a function answers: see `RunOptions.services`.
        """
        if app is None:
            self._add(lambda scripts: scripts.add_routes(address, ()))
        else:
            self._add(lambda scripts: scripts.add_app(address, app))
        return SimService(
            lambda route: self._add(lambda scripts: scripts.add_routes(address, (route,))),
            lambda: self._simulation.scripts.add_routes(address, ()),
        )

    @property
    def now(self) -> float:
        """Return the virtual seconds since the test began; `now_ns` is exact."""
        return self.now_ns / 1e9

    @property
    def now_ns(self) -> int:
        """Return the virtual nanoseconds since the test began."""
        return self._simulation.elapsed_ns

    @property
    def seed(self) -> int:
        return self._simulation.seeds.seed

    @property
    def trace(self) -> LoopTrace:
        """Return the trace, as far as the run has come."""
        return self._simulation.trace

    def tool(self, function: F) -> F:
        """Return the function, whose calls are recorded as a tool's: see `simloop.traced`."""
        return tools_port.traced(function)

    def program(self, command: str, *answers: Program | ProgramFunction, **keys: Any) -> SimProgram:
        """Script the program whose command line begins with these words; the result has `.calls`.

            git = sim.program("git status", stdout=" M a.py")
            sim.program("pytest", Program(exit=1, takes="12s"), Program(stdout="1 passed"))
            sim.program("upper", lambda args, stdin: stdin.upper())

        The answers come in order, and the last one again; `keys` are those of one answer.
        """
        answers = (*answers, *([Program(**keys)] if keys or not answers else []))
        check_given({command: answers})
        made: list[ProgramScript] = []  # one for each run of the test
        self._add(lambda scripts: made.append(scripts.add_program(command, *answers)))
        return SimProgram(made)

    def input(self, *lines: str | people.Line) -> None:
        """Let the user type lines on standard input, each when the program asks for one.

            sim.input("y", Line(say="n", after="40m"))

        After the last one, the program reads the end of the file.
        """
        self._add(lambda scripts: scripts.add_lines(lines))

    async def wait(self, time: str) -> None:
        """Let virtual time pass, such as `2h`, until the user goes on."""
        await asyncio.sleep(fields.duration(time) / 1e9)

    def restart(self) -> None:
        """State in the trace that the agent restarts: the test makes a fresh one after this call.

        A tool that ran before must not run again then, unless the model asks again.
        """
        self._simulation.restart()


class SimParty(msgspec.Struct):
    """One agent of several in the simulation of one test: its script, and what it asked."""

    _add: Callable[[Sequence[Reply]], object]
    _seen: Callable[[], list[Request]]

    def script(self, *replies: Reply) -> None:
        """Add replies for this agent, in order or by rule, as `provider.script` does for others."""
        _check_replies(replies)
        self._add(replies)

    @property
    def requests(self) -> list[Request]:
        return self._seen()


def _check_replies(replies: Sequence[object]) -> None:
    for each in replies:
        if not isinstance(each, Reply):
            hint = "write provider.script(Reply(say=...), Reply(call={...}))"
            raise ScenarioError(f"a script has replies, not {type(each).__name__}", hint=hint)


class Provider(_OfTest):
    """The provider of models in the simulation of one test."""

    _hint = "only `script` can be used before the body of the test"
    _options = WireOptions()

    def script(self, *replies: Reply) -> None:
        """Add replies of the model, in order or by rule, to the end of the script.

        Call it before the agent asks, in a fixture or in the body of the test, as often as needed.
        A reply that is not used fails a test that would pass.
        """
        _check_replies(replies)
        self._add(lambda scripts: scripts.add(replies))

    def party(self, name: str, when: PartyCondition | Mapping[str, Any]) -> SimParty:
        """Return an agent of several, which has its own script, in a fixture or in the test.

            reviewer = provider.party("reviewer", {"system": {"contains": "You review"}})
            reviewer.script(Reply(say="Good."))
            ...
            assert len(reviewer.requests) == 1

        `when` says which requests are for it, with the keys of `when` of `models` in a scenario.
        """
        party = Party(when=when)
        self._add(lambda scripts: scripts.add_party(name, party.when))
        return SimParty(
            lambda replies: self._add(lambda scripts: scripts.add_party(name, party.when, replies)),
            lambda: [each for each in self.requests if each.party == name],
        )

    @property
    def requests(self) -> list[Request]:
        """Return the requests so far exactly as sent, whatever the wire format."""
        return list(requests(self._simulation.trace.entries))

    @property
    def bodies(self) -> Mapping[int, bytes]:
        """Return the raw bodies of the requests so far that came over HTTP, by their numbers."""
        return self._simulation.bodies

    @property
    def options(self) -> WireOptions:
        """How the provider writes its replies over HTTP; assign others to change it."""
        return self._options if self._test is None else self._test.simulation.scenario.wire

    @options.setter
    def options(self, options: WireOptions) -> None:
        if self._test is None:
            self._options = options
        self._add(lambda scripts: scripts.write_as(options))

    @property
    def model(self) -> model_port.ModelPort:
        """Return the native client: `await provider.model.reply(messages, tools=...)`."""
        if (world := current_world()) is None:
            raise ScenarioError("the test has not begun", hint=self._hint)
        return world.model

    def expect(self, **given: Unpack[ExpectedTraffic]) -> None:
        """Check the traffic so far, with keys of `expect` in a scenario file.

            provider.expect(requests=3, elapsed={"max": "15s"})

        It checks at once, so call it after the agent has returned. The keys are requests, elapsed,
        calls, tools_run, sent, services, programs, asked and refused. `violates` states what is
        known to be wrong, for the check at the end of the test. Raises ExpectationFailed, with one
        line for each expectation that does not hold.
        """
        for key in given:
            if key not in ExpectedTraffic.__annotations__:
                known = ", ".join(ExpectedTraffic.__annotations__)
                hint = f"assert on what your agent returned; it takes {known}"
                raise ScenarioError("an async test does not expect this", key=key, hint=hint)
        wanted, test = loader.expected(given), self._begun
        if unknown := wanted.unknown_party(test.simulation.scenario.models):
            raise ScenarioError(unknown[1], key=f"expect.{unknown[0]}")
        test.violates.update(wanted.violates or {})
        if found := mismatches_so_far(wanted, test.simulation.trace, test.simulation.elapsed_ns):
            raise ExpectationFailed("\n".join(map(str, found)))


@dataclass(slots=True)
class Played:
    """The results of the runs of one test, with their traces if they may be wanted."""

    keeps_traces: bool
    runs: int = 0
    virtual_ns: int = 0
    wall_ns: int = 0
    kept: list[LoopTrace] = field(default_factory=list)
    passed: bool = False
    last: Callable[[], str] | None = None  # shows the last run, for an assertion of the test

    @contextlib.contextmanager
    def run(self, trace: LoopTrace | None = None) -> Iterator[None]:
        start_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self.runs += 1
            self.wall_ns += time.perf_counter_ns() - start_ns
            if trace is not None:
                self.virtual_ns += trace.elapsed_ns
                self.kept += [trace] * self.keeps_traces


class SimloopRun(Protocol):
    """The fixture `simloop_run`."""

    def __call__(
        self, scenario: Scenario | str | Path, *, check: bool = True, **options: Unpack[RunOptions]
    ) -> Result:
        """Run a scenario, or the file at a path relative to the test, and check what it expects.

        A scenario that expects an error instead of an outcome has no result, and the fixture
        returns None. The type omits None, because otherwise every test would have to check for it.
        """


class VirtualClock(Protocol):
    """The fixture `virtual_clock`."""

    def __call__(self, main: Coroutine[Any, Any, T], **settings: Any) -> T:
        """Run `main` on the virtual clock and return its result."""


class MakeFakeModel(Protocol):
    """The fixture `fake_model`."""

    def __call__(self, *replies: Reply, summaries: tuple[Reply, ...] = ()) -> fake_model.FakeModel:
        """Make a fake model that plays the replies."""
