"""Async tests that run on the virtual clock, each as the agent of a run, and their async fixtures.

Only tests that are marked, or those that `simloop_auto` takes, differ from other tests. The
function of an async fixture runs in the simulation, right before the body of the test, and anew for
each seed; its value does not exist before. So pytest gets a Pending in its place.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from simloop.pytest_plugin.reports import is_finding, last_of
from simloop.pytest_plugin.settings import command, played_by, settings_of_async

if TYPE_CHECKING:
    from simloop.runs.fixtures import AsyncTest, Provider, Sim

PROVIDER: "pytest.StashKey[Provider]" = pytest.StashKey()
SIM: "pytest.StashKey[Sim]" = pytest.StashKey()
"""The fixtures of a test that begin anew with each of its runs."""


def is_ours(item: pytest.Item) -> bool:
    """Return whether a test is async and marked, or async in a project with `simloop_auto`."""
    if not isinstance(item, pytest.Function):
        return False
    is_marked = item.get_closest_marker("simloop") is not None
    if not inspect.iscoroutinefunction(_main(item)):
        return is_marked and not {"provider", "sim"}.isdisjoint(item.fixturenames)
    if is_marked:
        return True
    return bool(item.config.getini("simloop_auto")) and not _is_marked_for_others(item)


def _is_marked_for_others(item: pytest.Function) -> bool:
    """Return whether the code of a test, not an auto mode, marks it for another plugin."""
    own: list[Any] = [*getattr(_main(item), "pytestmark", [])]
    around = [mark for node in item.listchain()[:-1] for mark in node.own_markers]
    return any(mark.name in ("asyncio", "anyio", "trio") for mark in (*own, *around))


def has_no_frame_of(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
    """Return whether simloop found the error of an async test after the body had returned."""
    if not is_finding(excinfo.value) or item.config.getoption("fulltrace") or not is_ours(item):
        return False
    return not any(Path(entry.path) == item.path for entry in excinfo.traceback)


@contextlib.contextmanager
def simulated(item: pytest.Function) -> Iterator[None]:
    """Let pytest call, for the async function of the test, one that runs it in simulations."""
    main, given = _main(item), getattr(item.obj, "hypothesis", None)

    def play(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        _play(item, main, args, kwargs)

    with pytest.MonkeyPatch.context() as patch:
        if given is None:
            patch.setattr(item, "obj", play)
        else:  # each example is a run
            patch.setattr(given, "inner_test", play)
        yield


def _main(item: pytest.Function) -> Callable[..., Any]:
    function = item.obj
    if (given := getattr(function, "hypothesis", None)) is not None:
        function = given.inner_test
    if type(item).__module__.partition(".")[0] == "pytest_asyncio":
        function = getattr(function, "__wrapped__", function)
    return function  # type: ignore[no-any-return]


def _play(
    item: pytest.Function, main: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    __tracebackhide__ = True
    from simloop.check.trial import verdict_on  # noqa: PLC0415 - see the docstring of the plugin
    from simloop.errors import CheckFailed  # noqa: PLC0415
    from simloop.runs.result import account  # noqa: PLC0415
    from simloop.scenario.expect import Expect  # noqa: PLC0415

    settings, played = settings_of_async(item), played_by(item)
    seeds, first = settings.pop("seeds"), len(played.kept)
    for seed in seeds:
        if item.config.getoption("--simloop-trace") != "on":
            del played.kept[first:]  # those of the seeds before, which passed
        test = _test(item, seed, settings, _body(item, main, args, given))
        again = command(item, seed if len(seeds) > 1 else None)
        which = f"seed {seed} is the first of {len(seeds)} that fails\n" if len(seeds) > 1 else ""
        run = test.simulation
        played.last = partial(last_of, run, (), which, again)
        try:
            with played.run(run.trace):
                test.run()
            verdict_on(run, Expect(violates=test.violates)).check()
        except CheckFailed as error:
            error.account = error.account or f"\n{which}{account(run.trace, (), ()).lstrip()}"
            error.reproduce = again
            raise


def _body(
    item: pytest.Function, main: Callable[..., Any], args: tuple[Any, ...], given: dict[str, Any]
) -> Callable[[], Awaitable[None]]:
    from simloop.virtual.threads.calls import call_in_thread  # noqa: PLC0415 - see the docstring of the plugin

    is_async = inspect.iscoroutinefunction(main)

    async def body() -> None:
        __tracebackhide__ = True
        async with entered(item.funcargs) as values:  # also those that no argument asks for
            own = {name: values[name] for name, each in given.items() if type(each) is Pending}
            call = partial(main, *args, **{**given, **own})
            returned = await (call() if is_async else call_in_thread(call, "test"))
        if returned is not None:
            pytest.fail(f"a test returns None, not {type(returned).__name__}", pytrace=False)

    return body


def _test(
    item: pytest.Function, seed: int, settings: dict[str, Any], body: Callable[[], Awaitable[None]]
) -> "AsyncTest":
    from simloop.runs.fixtures import AsyncTest  # noqa: PLC0415 - see the docstring of the plugin

    qualified = item.nodeid.partition("::")[2].replace("::", ".").partition("[")[0]
    name = f"{getattr(item.module, '__name__', '')}:{qualified}"
    test = AsyncTest(body, name, seed=seed, **settings)
    for fixture in filter(None, (item.stash.get(PROVIDER, None), item.stash.get(SIM, None))):
        fixture.begin(test)
    return test


class Pending(NamedTuple):
    """An async fixture that has not run: its function, and its arguments."""

    function: Callable[..., Any]
    given: Mapping[str, Any]


@contextlib.contextmanager
def deferred(definition: Any, request: Any) -> Iterator[None]:
    """Let pytest set up a fixture of a test in the simulation; an async one becomes a Pending."""
    name, function = definition.argname, definition.func
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        for each in definition.argnames:
            if isinstance(request.getfixturevalue(each), Pending):
                pytest.fail(
                    f"the fixture `{name}` is not async and asks for the async fixture `{each}`, "
                    f"which runs with the body of the test: make `{name}` async",
                    pytrace=False,
                )
        yield
        return
    if definition.scope != "function":
        pytest.fail(
            f"the async fixture `{name}` has the scope {definition.scope}: a test in the "
            "simulation has its own event loop, and so it takes those of the scope function",
            pytrace=False,
        )
    with pytest.MonkeyPatch.context() as patch:
        bound = _bound(function, request.instance)
        patch.setattr(definition, "func", lambda **given: Pending(bound, given))
        yield


def _bound(function: Any, instance: object) -> Callable[..., Any]:
    if inspect.ismethod(function):
        plain: Any = function.__func__
        if isinstance(instance, type(function.__self__)):
            return plain.__get__(instance)  # type: ignore[no-any-return]
        return function
    if instance is not None and [*inspect.signature(function).parameters][:1] == ["self"]:
        return function.__get__(instance)  # type: ignore[no-any-return]
    return function  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def entered(given: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Run the pending fixtures among `given` in order, yield all values, and end them."""
    made: dict[int, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        yield {name: await _value(each, made, stack) for name, each in given.items()}


async def _value(each: Any, made: dict[int, Any], stack: contextlib.AsyncExitStack) -> Any:
    if not isinstance(each, Pending):
        return each
    if id(each) not in made:  # the pending fixtures live as long as the test
        given = {name: await _value(value, made, stack) for name, value in each.given.items()}
        if inspect.isasyncgenfunction(each.function):
            entering = contextlib.asynccontextmanager(each.function)(**given)
            made[id(each)] = await stack.enter_async_context(entering)
        else:
            made[id(each)] = await each.function(**given)
    return made[id(each)]
