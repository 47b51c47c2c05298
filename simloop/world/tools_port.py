"""The tools as an agent sees them: each start and each result is recorded as it passes.

The port runs the calls that an agent gives it. The agent's own code calls other tools: each of
their calls is matched once with a call of the model, so that each result belongs to one call.
"""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from simloop.errors import ScenarioError, SimloopError
from simloop.escape import writable
from simloop.messages import Outcome, ToolCall, ToolMessage, ToolResult, ToolSpec, json_value
from simloop.trace import entries, facts
from simloop.trace.recorder import Recorder
from simloop.virtual.border.statements import WORK, Work
from simloop.virtual.clock.loop import VirtualLoop, loop_here
from simloop.virtual.clock.tasks import Started, begin, is_coroutine
from simloop.virtual.clock.timeouts import Timeout
from simloop.virtual.threads import calls, scheduler
from simloop.world import chance, user_functions
from simloop.world.tools import Tool, ToolServer, canonical_json, read_arguments
from simloop.world.user_functions import UserError, keep, message_of
from simloop.world.user_port import no_turn

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_JSON = (str, int, float, list, dict, type(None))
_BREAKS = (entries.Error, entries.StreamCut)
CURRENT_CALL: ContextVar[str] = ContextVar("current_call", default="")
"""The id of the call whose tool runs here; empty in other code."""
Breaking: TypeAlias = Callable[[Timeout], contextlib.AbstractContextManager[object]]
"""A function that lets an abort break a timeout off while its block runs."""


class ToolBehaviour(NamedTuple):
    """The settings of one tool. What is not stated is None."""

    wait: Callable[[], Coroutine[Any, Any, None]] | None = None  # takes its time before it ends
    result: Callable[[], Any] | None = None  # returns or raises in the place of the function
    details: Any = None  # for the interface
    timeout_ms: int | None = None
    turn: "Callable[[], ToolBehaviour] | None" = None
    """Returns the behaviour in the next call, for a tool whose calls differ."""


_AS_IT_IS = ToolBehaviour()


class OwnTools(msgspec.Struct, eq=False):
    """The tools of one conversation that the agent's own code calls, and the record of the calls.

    `timeout_ms` bounds a call whose tool has no timeout of its own. A call that a timeout ends
    raises TimeoutError, and one that a fault of chance breaks raises ConnectionError.

    A start takes the id of a call of the model that waits under its name: the first with equal
    arguments but for capitals, or else the first that no request has answered. One that failed or
    was cut off comes last, because the retry repeats it, and so does one of a tool that its request
    did not offer. A tool that nobody asked for gets an id of its own, `own-1`.
    """

    _recorder: Recorder
    _loop: VirtualLoop
    _timeout_ms: int | None
    _behaviours: Mapping[str, ToolBehaviour]
    _sites: chance.FaultSites | None
    _seen: int = 0
    _unasked: int = 0
    _open: list[entries.ToolCall] = []
    _broken: set[int] = set()  # the numbers of requests whose replies broke
    _answered: set[str] = set()  # the ids of calls whose results were sent
    _schemas: dict[str, Any] = {}  # of the tools that requests have offered
    _works: list[Work] = []  # of the tools that run
    _offered: dict[int, Any] = {}  # their names by the numbers of the requests

    def of(self, name: str) -> ToolBehaviour:
        return self._behaviours.get(name, _AS_IT_IS)

    def _next_of(self, name: str) -> ToolBehaviour:
        behaviour = self.of(name)
        return behaviour if behaviour.turn is None else behaviour.turn()

    async def call(self, name: str, function: Callable[[], Awaitable[Any]]) -> Any:
        behaviour = self._next_of(name)

        async def course() -> Any:
            await self._before(behaviour)
            return await function() if behaviour.result is None else behaviour.result()

        return await _within(behaviour.timeout_ms or self._timeout_ms, course())

    def call_blocking(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the result as `call` does. Nothing interrupts `function`, which may be late."""
        behaviour, begin_ns = self._next_of(name), self._loop.now_ns
        timeout_ms = behaviour.timeout_ms or self._timeout_ms
        if behaviour.wait is not None or self._sites is not None:
            calls.run_blocking(_within(timeout_ms, self._before(behaviour)))
        value = function() if behaviour.result is None else behaviour.result()
        if timeout_ms is not None and self._loop.now_ns - begin_ns > timeout_ms * 10**6:
            raise _timed_out(timeout_ms)
        return value

    async def _before(self, behaviour: ToolBehaviour) -> None:
        if self._sites is not None:
            await chance.disturb_tool(self._sites)
        if behaviour.wait is not None:
            await behaviour.wait()

    @contextlib.contextmanager
    def recorded(self, name: str, arguments: Mapping[str, Any]) -> Iterator[Callable[[Any], None]]:
        """Record a call: the block gives its result to the function, or raises."""
        started = self.start(name, arguments)
        here, details = CURRENT_CALL.set(started.id), self.of(name).details
        self._works.append(work := Work(arguments.values(), self._works))
        its_work = WORK.set(work)
        try:
            yield lambda value: self.end(started, shown_result(value), work, details=details)
        except (Exception, asyncio.CancelledError) as error:
            told = message_of(error) or type(error).__name__
            if isinstance(error, asyncio.CancelledError):
                if (task := asyncio.current_task(self._loop)) is None or task.cancelling():
                    raise  # it is broken off
                told = "the tool was cancelled"  # by itself
            if isinstance(error, AssertionError):  # is judged: a tool's own claim does not hold
                told = user_functions.describe(error)
            self.end(started, f"Error: {told}", work, is_error=True)
            raise
        finally:
            CURRENT_CALL.reset(here)
            WORK.reset(its_work)
            self._works.remove(work)

    def start(self, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        self._read()
        shown = writable(shown_arguments(self._told_by_model(name, arguments)))
        call = ToolCall(self.id_for(name, shown), writable(name), shown)
        own, here = True, scheduler.thread_here()
        in_thread = here is not None and here is not here.threads.of_loop
        self._recorder.record(entries.ToolStarted, call.id, call.name, shown, own, in_thread)
        return call

    def end(
        self, call: ToolCall, text: str, work: Work | None = None, *, is_error: bool = False,
        details: Any = None,
    ) -> None:  # fmt: skip
        work = work or Work((), [])
        did = map(writable, (work.missed, "; ".join(work.kept[:9]), work.overwrote))
        data = call.id, call.name, writable(text), is_error, details, *did, work.is_open
        self._recorder.record(entries.ToolResult, *data)

    def id_for(self, name: str, arguments: str) -> str:
        """Take the call of the model that a tool with these arguments answers; return its id."""
        self._read()
        named = [call for call in self._open if call.name == name]
        whole = [call for call in named if call.request not in self._broken]
        known = () if any(self._offered.values()) else (name,)  # it may describe them elsewhere
        asked = [call for call in whole if name in (self._offered[call.request] or known)]
        newest = [call for call in named if call.request == named[-1].request]
        value, low = json_value(arguments, arguments), json_value(arguments.lower())
        asked = asked or newest
        equal = [each for each in asked if json_value(each.arguments, each.arguments) == value]
        equal = equal or [each for each in asked if json_value(each.arguments.lower()) == low]
        unanswered = [each for each in (*asked, *newest) if each.call_id not in self._answered]
        equal = equal or [each for each in unanswered if _is_part(each.arguments, value)]
        nearest = max(unanswered, key=lambda each: _shared(each.arguments, arguments), default=None)
        if (found := next(iter(equal), nearest)) is None:
            self._unasked += 1
            return f"own-{self._unasked}"
        self._open.remove(found)
        return found.call_id

    def _told_by_model(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out the context that a framework adds: an object that the schema does not have."""
        schema = json_value(bytes(self._schemas.get(name, b"null")).decode())
        known = schema.get("properties") if isinstance(schema, dict) else None
        names, given = known if isinstance(known, dict) else arguments, arguments.items()
        return {key: one for key, one in given if key in names or isinstance(one, _JSON)}

    def _read(self) -> None:
        """Read the entries since the last call: a tool of the world may have taken a call too."""
        record = self._recorder.entries
        for place in range(self._seen, len(record)):
            entry: Any = record[place]
            if (kind := type(entry)) is entries.ToolCall:
                self._open.append(entry)
                self._answered.discard(entry.call_id)
            elif kind is entries.Request:
                self._offered[entry.number] = self._offered.get(entry.base, ())
                if entry.tools is not UNSET:
                    self._offered[entry.number] = {one.name for one in entry.tools}
                    self._schemas.update((one.name, one.parameters) for one in entry.tools)
                self._answered.update(getattr(each, "call_id", "") for each in entry.added)
            elif kind in _BREAKS or (kind is entries.Finish and entry.reason not in facts.MAY_ACT):
                self._broken.add(entry.request)
            elif kind is entries.Finish:  # in the place of replies that broke off
                self._open = [each for each in self._open if each.request not in self._broken]
            elif kind is entries.Ended and entry.outcome is not Outcome.COMPLETED:
                self._open.clear()  # nothing runs for the calls of a run that has failed
            elif kind is entries.ToolStarted and not entry.own:
                taken = next((c for c in self._open if c.call_id == entry.call_id), None)
                if taken is not None:
                    self._open.remove(taken)
        self._seen = len(record)


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Return arguments as a JSON object; a value that is no JSON is shown by its type."""
    return canonical_json({name: _plain(value) for name, value in arguments.items()}).decode()


def shown_result(value: Any) -> str:
    """Return a result as the trace has it: text unchanged, None empty, all else as JSON."""
    if isinstance(value, str | None):
        return value or ""
    plain = _plain(value)
    return plain if isinstance(plain, str) else canonical_json(plain).decode()


def _plain(value: Any) -> Any:
    dumped = getattr(type(value), "model_dump", None)  # pydantic
    try:
        if dumped is not None:
            value = dumped(value, mode="json")
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_by_type)
        canonical_json(plain)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _by_type(value)
    return plain


def _by_type(value: Any) -> str:
    # Its `repr` may have an address, which differs from run to run.
    return f"<{type(value).__name__}>"


async def _within(timeout_ms: int | None, course: Coroutine[Any, Any, T]) -> T:
    if timeout_ms is None:
        return await course
    try:
        async with asyncio.timeout(timeout_ms / 1000) as timeout:
            value = await course
    except TimeoutError:
        if timeout.expired():
            raise _timed_out(timeout_ms) from None
        raise
    if timeout.expired():  # a result that comes all the same is late
        raise _timed_out(timeout_ms)
    return value


def _timed_out(timeout_ms: int) -> TimeoutError:
    return TimeoutError(f"timed out after {timeout_ms} ms")


@dataclass(eq=False)
class ToolsPort:
    """Runs tools by name. `timeout_ms` bounds a call whose tool has no timeout of its own.

    Without `results_fail` a result that a tool returns is a success, whatever it says of itself.
    """

    tools: Mapping[str, Tool]
    _recorder: Recorder
    _loop: VirtualLoop
    _raised: list[UserError]
    _timeout_ms: int | None = None
    results_fail: bool = True
    behaviours: Mapping[str, ToolBehaviour] | None = None
    sites: chance.FaultSites | None = None
    specs: tuple[ToolSpec, ...] = ()
    turn: Callable[..., Awaitable[None]] = no_turn
    server: ToolServer = field(default_factory=ToolServer)
    served: int = 0  # calls that came through a server
    own_tools: OwnTools = field(init=False)

    def __post_init__(self) -> None:
        self.specs = tuple([tool.spec for tool in self.tools.values()])
        given = self._recorder, self._loop, self._timeout_ms
        self.own_tools = OwnTools(*given, self.behaviours or {}, self.sites)

    @property
    def now_ns(self) -> int:
        return self._loop.now_ns

    async def run(self, call: ToolCall) -> ToolMessage:
        """Run one call and return its result for the model, an error result if it cannot run."""
        await self.turn(starts=True)
        call = ToolCall(writable(call.id), writable(call.name), writable(call.arguments))
        result = await self._run(call)
        await self.turn()
        return ToolMessage(call.id, writable(result.text), result.is_error)

    async def _run(self, call: ToolCall) -> ToolResult:
        if (tool := self.tools.get(call.name)) is None:
            return self.record(call, failed(f"tool {call.name} not found"))
        arguments, shown, wrong = read_arguments(tool, call.arguments)
        if wrong:
            return self.record(call, ToolResult(wrong, is_error=True))
        self.start(call, shown)
        result = self.begin(call, tool, arguments)
        if isinstance(result, ToolResult):
            return result
        waited = await self.wait(result, call, tool)
        assert waited is not None
        return waited

    def start(self, call: ToolCall, shown: str) -> None:
        recorder = self._recorder
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        if seq > recorder.look_at:
            recorder.look()
        recorder.put(entries.ToolStarted(seq, at_ns, call.id, call.name, shown), len(shown))

    def begin(self, call: ToolCall, tool: Tool, arguments: dict[str, Any]) -> ToolResult | Started:
        """Run a tool up to its first wait, and return its result, or the rest to `wait` for."""
        try:
            value = tool.function.function(**arguments)
            if type(value) is str:  # most tools return text
                return self.record(call, ToolResult(value))
            if tool.function.is_async or is_coroutine(value):
                value = begin(value)
                if type(value) is Started:
                    return value
            result = self._returned(value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a tool is user code
            result = self._failure(tool, error)
        return self.record(call, result)

    async def wait(
        self, started: Started, call: ToolCall, tool: Tool, breaking: Breaking = nullcontext
    ) -> ToolResult | None:
        """Return the result of a tool that waits; None if an abort broke it off."""
        timeout_ms = tool.timeout_ms or self._timeout_ms
        result = None
        with Timeout.after(self._loop, timeout_ms) as timeout, breaking(timeout):
            try:
                result = self._returned(await started)
            except (Exception, asyncio.CancelledError) as error:  # as in `begin`
                if isinstance(error, asyncio.CancelledError) and timeout.task.cancelling():
                    raise
                result = self._failure(tool, error)
        if timeout.expired:  # a result that comes all the same, from a tool that went on, is late
            result = failed(f"timed out after {timeout_ms} ms")
        return None if result is None else self.record(call, result)

    def record(self, call: ToolCall, result: ToolResult) -> ToolResult:
        recorder, text, details = self._recorder, result.text, result.details
        if details is not None:
            details = details_of(result, recorder)
        if not text.isascii():
            text = writable(text)
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        entry = entries.ToolResult(seq, at_ns, call.id, call.name, text, result.is_error, details)
        recorder.put(entry, len(text))
        return result

    def _returned(self, value: Any) -> ToolResult:
        result = result_of(value)
        if result.is_error and not self.results_fail:
            return msgspec.structs.replace(result, is_error=False)
        return result

    def _failure(self, tool: Tool, error: BaseException) -> ToolResult:
        if isinstance(error, SimloopError):  # a wrong scenario or an escape from the simulation
            raise self._recorder.keep(error)
        if isinstance(error, asyncio.CancelledError):
            return failed("the tool was cancelled")  # by itself: no Exception, so bug D4
        keep(self._raised, f"the tool {tool.spec.name}", error)
        return failed(message_of(error) or type(error).__name__)


def failed(why: str) -> ToolResult:
    """Return the result of a call that failed."""
    return ToolResult(f"Error: {why}", is_error=True, details={"error": why})


def details_of(result: ToolResult, recorder: Recorder) -> object:
    """Return a copy of the details of `result`, or a text that names their type if not JSON."""
    try:
        text = canonical_json(result.details)
        recorder.count(len(text))
        return msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError):
        return f"no JSON: {type(result.details).__name__}"


def result_of(value: Any) -> ToolResult:
    """Return the value that a tool returned, as a result."""
    if isinstance(value, ToolResult):
        if not isinstance(value.text, str):
            raise TypeError("the text of a ToolResult must be text")
        return value
    return ToolResult(text_of(value))


def text_of(value: Any) -> str:
    """Return a value as the model reads it: text unchanged, None empty, all else as JSON."""
    if isinstance(value, str):
        return writable(value)
    return "" if value is None else canonical_json(value).decode()


def traced(function: F) -> F:
    """Record each call of `function` in the trace of the run that it happens in, as a tool's.

        @simloop.traced
        async def search(query: str) -> str: ...

    The function may be async. Its name, signature and docstring stay, so that a framework reads
    them. Outside of a run it is called as it is.

    Where the scenario has a tool of this name, its settings hold: `takes` is virtual time before
    the function runs, `timeout` raises TimeoutError, and a tool for which the scenario states the
    end (`returns`, `returns_chars`, `raises`, `hangs`, `cancels`) ends so, and the function does
    not run. The scenario's faults of chance, `tool.slow` and `tool.raises`, reach it too. A timeout
    cannot interrupt a function that is not async, whose result is late then.

    Raises ScenarioError for a generator or a class.
    """
    name = getattr(function, "__name__", type(function).__name__)
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if is_generator or inspect.isclass(function) or not callable(function):
        wrong = f"`{name}` is not a function that returns one value"
        raise ScenarioError(wrong, key="traced", hint="put it on a plain or an async function")

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        tools = _tools_here()
        if tools is None or (given := _arguments(function, args, kwargs)) is None:
            return await function(*args, **kwargs)
        with tools.recorded(name, given) as end:
            value = await tools.call(name, functools.partial(function, *args, **kwargs))
            end(value)
        return value

    @functools.wraps(function)
    def call_blocking(*args: Any, **kwargs: Any) -> Any:
        tools = _tools_here()
        if tools is None or (given := _arguments(function, args, kwargs)) is None:
            return function(*args, **kwargs)
        with tools.recorded(name, given) as end:
            value = tools.call_blocking(name, functools.partial(function, *args, **kwargs))
            end(value)
        return value

    wrapper: Any = call if inspect.iscoroutinefunction(function) else call_blocking
    setattr(wrapper, user_functions.TRACED, function)
    return wrapper  # type: ignore[no-any-return]


def _tools_here() -> OwnTools | None:
    loop = loop_here()  # not `current_world`: the world imports this module
    return loop.worlds[-1].tools.own_tools if loop is not None and loop.worlds else None


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError:  # the call itself raises the error: the function does not run
        return None
    except ValueError:
        return dict(kwargs)
    found: dict[str, Any] = {}
    for place, (name, value) in enumerate(bound.arguments.items()):
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif place or name not in {"self", "cls"}:
            found[name] = value
    return found


@functools.lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _shared(given: str, arguments: str) -> int:
    """Return how many values of a call a run has, which may get them inside of an object."""
    value = json_value(given)
    return sum(str(each) in arguments for each in (value.values() if type(value) is dict else ()))


def _is_part(arguments: str, value: Any) -> bool:
    given = json_value(arguments)
    are_both = isinstance(given, dict) and isinstance(value, dict) and given
    return bool(are_both) and all(name in value and value[name] == given[name] for name in given)
