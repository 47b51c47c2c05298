"""The options of a run that a caller gives besides the scenario.

Python checks neither a TypedDict nor its values, so this module refuses a wrong name or value
before anything runs.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

from simloop.engine.hooks import Callbacks, Hooks
from simloop.errors import ScenarioError
from simloop.kernel.machine import Machine
from simloop.kernel.policies import TokenEstimator
from simloop.kernel.retry import RetryPolicy
from simloop.scenario.catalog import Expectations
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
    single options of the loop. `expect_on` has expectations for this loop by names of bundled
    scenarios; a machine or an agent may have them as an attribute of that name. `tools` (functions
    or Tools), `hooks` and `callbacks` are Python code that joins the scripted ones. `model` (a
    function, or an object with `stream`) answers instead of a script. `retry` and `estimate_tokens`
    replace the policy and the estimate. Such code runs sealed: time, dates and randomness are
    virtual. With `hook_cost` the real time of hooks is measured: see `Result.hook_cost`. With
    `keep_bodies` the raw bodies of requests over HTTP are kept: see `Result.bodies`.
    """

    seed: int | None
    loop: GivenLoop | None
    judge_as: str
    loop_options: Mapping[str, Any]
    expect_on: Expectations | Mapping[str, Any] | None
    tools: Tools
    hooks: Hooks | None
    callbacks: Callbacks | None
    model: Model | Callable[..., Any] | None
    retry: RetryPolicy | None
    estimate_tokens: TokenEstimator | None
    hook_cost: bool
    keep_bodies: bool


_NAMES = tuple(RunOptions.__annotations__)


def check_scenario(scenario: object) -> None:
    """Raise ScenarioError, with the likely intended call, if `scenario` is no Scenario."""
    if isinstance(scenario, Scenario):
        return
    hint = "make one with Scenario(prompt=..., model=[...])"
    if isinstance(scenario, dict):
        hint = "write Scenario(**...)"
    elif isinstance(scenario, str):
        hint = "read a file with load_scenario(path), or YAML text with parse_scenario(text)"
    elif hasattr(scenario, "__fspath__"):
        hint = "read the file with load_scenario(path)"
    raise ScenarioError(f"a run needs a Scenario, not {_kind(scenario)}", hint=hint)


def check_options(options: RunOptions) -> None:
    """Raise ScenarioError for an unknown option, or for a value that an option cannot have."""
    for name, value in options.items():
        if name not in _NAMES:
            close = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(_NAMES)}"
            raise ScenarioError(f"there is no argument `{name}`", hint=hint)
        fits, needs, hint = _VALUES.get(name, (_anything, "", ""))
        if value is not None and not fits(value):
            raise ScenarioError(f"{needs}, not {_kind(value)}", key=name, hint=hint)


def _anything(_: object) -> bool:
    return True


def _answers(value: object) -> bool:
    return not isinstance(value, type) and (hasattr(value, "stream") or callable(value))


def _is_seed(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_retry(value: object) -> bool:
    return all(hasattr(value, name) for name in ("classify", "retryable", "delay_ns"))


def _kind(value: object) -> str:
    return f"the class `{value.__name__}`" if isinstance(value, type) else type(value).__name__


_VALUES: dict[str, tuple[Callable[[object], bool], str, str]] = {
    "seed": (_is_seed, "a seed is a whole number", "such as seed=7"),
    "hooks": (
        lambda value: isinstance(value, Hooks),
        "hooks are given as Hooks",
        "such as Hooks(before_llm_call=[function])",
    ),
    "callbacks": (
        lambda value: isinstance(value, Callbacks),
        "callbacks are given as Callbacks",
        "such as Callbacks(on_text=function)",
    ),
    "model": (
        _answers,
        "a model is a function of the request, or an object with `stream`",
        "put replies into the scenario: Scenario(prompt=..., model=[Reply(say=...)])",
    ),
    "retry": (
        _is_retry,
        "a retry policy has classify, retryable and delay_ns",
        "such as ExponentialBackoff(jitter=0.5)",
    ),
    "estimate_tokens": (callable, "an estimate is a function of a text", "such as len"),
    "hook_cost": (lambda value: isinstance(value, bool), "hook_cost is True or False", ""),
    "keep_bodies": (lambda value: isinstance(value, bool), "keep_bodies is True or False", ""),
}
