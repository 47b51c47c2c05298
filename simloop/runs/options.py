"""The options of a run besides the scenario, and the refusal of wrong names and values."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict

from simloop.engine.hooks import Callbacks, Hooks
from simloop.errors import ScenarioError
from simloop.kernel.machine import Machine
from simloop.kernel.policies import TokenEstimator
from simloop.kernel.retry import RetryPolicy
from simloop.scenario.programs import ScriptedProgram, check_given
from simloop.scenario.schema import Scenario
from simloop.world.agent import Agent
from simloop.world.fake_model import Model
from simloop.world.tools import Tools

GivenLoop: TypeAlias = str | Machine | Callable[..., Machine] | Agent | Callable[..., Any]
"""A name; a machine, or what makes one from Limits; or an agent, or what makes one."""


class RunOptions(TypedDict, total=False):
    """The options of a run that a caller may give besides the scenario; each is optional.

    `seed` and `loop` (a name; a Machine, or a class or function that makes one from Limits; or an
    agent, or a class or function that makes one) replace those of the scenario. `judge_as` is the
    bundled design whose expectations hold for a loop of the user's own; `loop_options` replace
    single options of the loop. `tools` (functions or Tools), `hooks` and `callbacks` are Python
    code that joins the scripted ones. `model` (a function, or an object with `stream`) answers
    instead of a script. `services` answer HTTP requests by the address of a service: each is an
    ASGI or a WSGI app, or a function that takes an HttpRequest and returns an Answer, text, bytes
    or JSON. `retry` and `estimate_tokens` replace the policy and the estimate. Such code runs
    sealed: time, dates and randomness are virtual. With `keep_bodies` the raw bodies of requests
    over HTTP are kept: see `Result.bodies`. With `real_hooks` the command hooks of the scenario run
    on this machine, and no program of the scenario is played. With `isolate` the run is made in a
    fork of this process, so that nothing of it is left for the next one. `unscripted` replaces that
    of the scenario. `programs` has more scripts of programs by their command lines: a function
    `(args, stdin) -> Completed` or `(args) -> Completed`, a Program, or a list of them in order.
    `endpoint` makes the Endpoint that answers requests over HTTP in the place of simloop's own.
    """

    seed: int | None
    loop: GivenLoop | None
    judge_as: str
    loop_options: Mapping[str, Any]
    tools: Tools
    hooks: Hooks | None
    callbacks: Callbacks | None
    model: Model | Callable[..., Any] | None
    services: Mapping[str, Callable[..., Any]]
    retry: RetryPolicy | None
    estimate_tokens: TokenEstimator | None
    keep_bodies: bool
    isolate: bool
    real_hooks: bool
    unscripted: Literal["refuse", "fail"]
    programs: Mapping[str, ScriptedProgram]
    endpoint: Callable[..., Any]


_NAMES = tuple(RunOptions.__annotations__)


def check_scenario(scenario: object) -> None:
    """Raise ScenarioError, with the likely intended call, if `scenario` is no Scenario."""
    if not isinstance(scenario, Scenario):
        hint = "make one with Scenario(prompt=..., model=[...]), or with load_scenario(path)"
        raise ScenarioError(f"a run needs a Scenario, not {_kind(scenario)}", hint=hint)


def check_options(options: RunOptions) -> None:
    """Raise ScenarioError for an unknown option, or for a value that an option cannot have."""
    for name, value in options.items():
        if name not in _NAMES:
            hint = f"there are {', '.join(_NAMES)}"
            raise ScenarioError(f"there is no argument `{name}`", hint=hint)
        if name == "unscripted" and value not in (None, "refuse", "fail"):
            message, hint = f"unscripted is {value!r}", "give refuse or fail"
            raise ScenarioError(message, key=name, hint=hint)
        if name in _CHECKS:
            _CHECKS[name](value)


def _check_kind(name: str, kind: type, value: object) -> None:
    if not isinstance(value, kind | None):
        message = f"{name} are given as {kind.__name__}, not {_kind(value)}"
        raise ScenarioError(message, key=name, hint=f"such as {kind.__name__}(...)")


def _check_model(model: object) -> None:
    if isinstance(model, type) or not (hasattr(model, "stream") or callable(model) or not model):
        form = "a function of the request, or an object with `stream`"
        hint = "put replies into the scenario: Scenario(prompt=..., model=[Reply(say=...)])"
        raise ScenarioError(f"a model is {form}, not {_kind(model)}", key="model", hint=hint)


_CHECKS: dict[str, Callable[[Any], None]] = {
    "hooks": partial(_check_kind, "hooks", Hooks),
    "callbacks": partial(_check_kind, "callbacks", Callbacks),
    "programs": check_given, "model": _check_model,
}  # fmt: skip


def _kind(value: object) -> str:
    return f"the class `{value.__name__}`" if isinstance(value, type) else type(value).__name__
