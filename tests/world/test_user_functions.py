"""Functions of the user: async or not, by their name."""

import functools
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Callbacks, Hooks, Reply, Result, Scenario, run
from simloop.world import fake_model
from simloop.world.fake_model import ScriptedFailure
from simloop.world.user_functions import (
    MOST_KEPT,
    UserFunction,
    framework_around,
    independent,
    library_of,
)


def fail(*_: Any, **__: Any) -> Any:
    raise LookupError("nothing there")


async def fail_later(*_: Any) -> None:
    fail()


CALLS = Scenario(prompt="Hi", model=[Reply(call={"fail": {}}), Reply(say="Done.")])


def by_model() -> Result:
    return run(Scenario(prompt="Hi"), model=fail)


def by_tool() -> Result:
    return run(CALLS, tools=[fail])


def by_hook() -> Result:
    return run(CALLS, hooks=Hooks(after_llm_call=[fail_later]), tools={"fail": str})


def by_callback() -> Result:
    return run(CALLS, callbacks=Callbacks(on_text=fail), tools={"fail": str})


@pytest.mark.parametrize(
    ("play", "where"),
    [
        (by_model, "the model"),
        (by_tool, "the tool fail"),
        (by_hook, "the hook fail_later"),
        (by_callback, "the callback on_text"),
    ],
)
def test_an_exception_of_the_user_is_kept_with_its_traceback(play: Any, where: str) -> None:
    first = play().exceptions[0]
    assert first.where == where
    assert isinstance(first.error, LookupError)
    frames = traceback.extract_tb(first.error.__traceback__)
    assert frames[-1].name == "fail"


def test_the_traceback_shows_the_frames_of_the_user_only() -> None:
    (kept,) = by_tool().exceptions
    lines = list(kept.lines())
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "{__file__}", line {fail.__code__.co_firstlineno + 1}, in fail'
    ]
    assert lines[-1] == "LookupError: nothing there"


def test_the_trace_is_the_same_whatever_the_traceback() -> None:
    def elsewhere(*_: Any, **__: Any) -> Any:
        fail()

    one, other = run(CALLS, tools={"fail": fail}), run(CALLS, tools={"fail": elsewhere})
    assert one.trace == other.trace
    assert list(one.exceptions[0].lines()) != list(other.exceptions[0].lines())


def test_of_many_exceptions_a_few_are_kept() -> None:
    replies = [Reply(call={"fail": {}}, times=MOST_KEPT + 10), Reply(say="Done.")]
    result = run(Scenario(prompt="Hi", model=replies), tools=[fail])
    assert len(result.exceptions) == MOST_KEPT


class TestALibrary:
    def test_is_known_by_the_folder_of_installed_packages(self) -> None:
        assert library_of("/v/lib/python3.11/site-packages/openai/_base.py") == "openai"
        assert library_of("C:\\py\\Lib\\site-packages\\six.py") == "six"
        assert library_of("/usr/lib/python3/dist-packages/apt/cache.py") == "apt"

    def test_is_python_itself(self) -> None:
        assert library_of(traceback.__file__) == "Python"
        assert library_of("<frozen importlib._bootstrap>") == "Python"

    def test_is_no_file_of_the_program(self) -> None:
        assert [library_of(file) for file in ("/home/me/bot.py", "<string>")] == ["", ""]


def test_the_frames_of_a_library_are_one_line_also_in_an_exception_that_led_to_another() -> None:
    source = """
def call(function, depth=3):
    return call(function, depth - 1) if depth else function()

def fail():
    raise OSError("no disk")
"""
    names: dict[str, Any] = {}
    exec(compile(source, "/v/site-packages/sdk/calls.py", "exec"), names)

    def tool() -> None:
        try:
            names["fail"]()
        except OSError as error:
            raise LookupError("nothing there") from error

    (kept,) = run(CALLS, tools={"fail": lambda: names["call"](tool)}).exceptions
    shown = [line for line in kept.lines() if not line.startswith("    ")]
    assert [re.sub(r'"[^"]*"', "FILE", line) for line in shown if line.strip()] == [
        "Traceback (most recent call last):",
        f"  File FILE, line {tool.__code__.co_firstlineno + 2}, in tool",
        "  ... 1 frame of sdk, the last calls.py:6 in fail",
        "OSError: no disk",
        "The above exception was the direct cause of the following exception:",
        "Traceback (most recent call last):",
        f"  File FILE, line {tool.__code__.co_firstlineno + 6}, in <lambda>",
        "  ... 4 frames of sdk, the last calls.py:3 in call",
        f"  File FILE, line {tool.__code__.co_firstlineno + 4}, in tool",
        "LookupError: nothing there",
    ]


def look(at: str) -> str:
    return f"saw {at}"


class AsyncObject:
    async def __call__(self, _: Any) -> None:
        """Do nothing."""


async def async_function(_: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (look, False),
        (lambda _: None, False),
        (async_function, True),
        (functools.partial(async_function, None), True),
        (AsyncObject(), True),
        (AsyncObject().__call__, True),
    ],
)
def test_whether_a_function_is_async_is_known_at_registration(
    function: Callable[..., Any],
    is_async: bool,  # noqa: FBT001
) -> None:
    assert UserFunction(function).is_async is is_async


@pytest.mark.parametrize(
    ("function", "name"),
    [(look, "look"), (AsyncObject(), "AsyncObject"), (functools.partial(look, "a"), "partial")],
)
def test_a_function_is_named_without_an_address(function: Callable[..., Any], name: str) -> None:
    assert UserFunction(function).name == name


def test_a_mark_is_read_from_functions_methods_and_objects() -> None:
    class Guard:
        @independent
        def check(self, given: object) -> None: ...

        def other(self, given: object) -> None: ...

    @independent
    class Counts:
        def __call__(self, given: object) -> None: ...

    @independent
    async def waits(given: object) -> None: ...

    marked: list[Callable[..., Any]] = [Guard().check, Counts(), waits, Guard().other]
    assert [UserFunction(each).is_independent for each in marked] == [True, True, True, False]


def called_by(*files: str, error: Exception) -> BaseException:
    """Return an error that simloop raises in functions of these files, the outermost first."""
    space: dict[str, Any] = {"error": error}
    code = "def call():\n    raise error"
    for file in (fake_model.__file__, *reversed(files)):
        exec(compile(code, file, "exec"), space)
        space = {"inner": space["call"]}
        code = "def call():\n    inner()"
    with pytest.raises(type(error)) as found:
        space["inner"]()
    return found.value.with_traceback(found.tb.tb_next)  # without this function


PYDANTIC_AI, ANYIO = (f"/e/site-packages/{name}/a.py" for name in ("pydantic_ai", "anyio"))


@pytest.mark.parametrize(
    ("files", "name"),
    [((PYDANTIC_AI,), "pydantic_ai"), ((PYDANTIC_AI, ANYIO), "pydantic_ai"),
     ((PYDANTIC_AI, "bot.py"), ""), (("bot.py",), ""), ((ANYIO,), "")],
)  # fmt: skip
def test_a_framework_that_lets_a_run_end_is_known(files: tuple[str, ...], name: str) -> None:
    assert framework_around(called_by(*files, error=ScriptedFailure("full"))) == name
    assert framework_around(called_by(*files, error=TimeoutError("late"))) == name


def test_a_failure_that_no_script_states_is_that_of_the_program() -> None:
    with pytest.raises(LookupError) as found:
        fail()
    assert not framework_around(found.value)
