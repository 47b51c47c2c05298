"""The four hook points, the objects that hooks receive, and the callbacks that only watch.

Hooks of a point run in the order of the list, and each sees the changes of those before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.messages import FinishReason, Message, ToolCall, ToolResult, ToolSpec, Usage
from simloop.world.tools import Tool
from simloop.world.user_functions import UserFunction

BEFORE_LLM_CALL = "before_llm_call"
AFTER_LLM_CALL = "after_llm_call"
BEFORE_TOOL_CALL = "before_tool_call"
AFTER_TOOL_CALL = "after_tool_call"
POINTS = (BEFORE_LLM_CALL, AFTER_LLM_CALL, BEFORE_TOOL_CALL, AFTER_TOOL_CALL)
HookList = Iterable[Callable[..., Any] | UserFunction]
Callback: TypeAlias = Callable[..., Any] | None


class Blockable:
    """The input of a hook before a call. `block` forbids the call, and later hooks do not run."""

    blocked: str | None = None
    changed: tuple[str, ...] = ()
    """The names of what the newest hook has changed."""
    is_apart = False
    """Whether this is the input of an independent hook, which may change nothing."""

    def block(self, reason: str) -> None:
        """Forbid the call. `reason` is shown to the user or, for a tool, to the model."""
        self.blocked = str(reason)

    def _check_blocked(self) -> None:
        blocked: Any = self.blocked
        if not isinstance(blocked, str | None):
            raise TypeError("blocked must be text; call block(reason)")


class BeforeLLMCall(Blockable):
    """The hook point before a request. It may change `system_prompt` and `tools` for this call.

    `tools` maps names to Tools. A hook may remove, replace and add tools, as Tools or as functions:
    the request offers, and the step runs, the tools that the hooks leave.
    """

    def __init__(
        self, step_number: int, messages: Sequence[Message], system_prompt: str,
        tools: Mapping[str, Tool],
    ) -> None:  # fmt: skip
        self.step_number = step_number
        self.messages = messages
        self.system_prompt = system_prompt
        self.tools: dict[str, Any] = dict(tools)
        self._kept_prompt, self._kept_tools = system_prompt, dict(tools)

    def keep(self) -> None:
        """Accept the changes of a hook. Raises TypeError, and ScenarioError for a bare ToolSpec."""
        self._check_blocked()
        if not isinstance(self.system_prompt, str):
            raise TypeError("system_prompt must be text")
        new_prompt = self.system_prompt != self._kept_prompt
        # All is checked before anything is kept: a hook that fails changes nothing.
        if self.is_apart and new_prompt:
            raise _refused("system_prompt")
        if self.tools != self._kept_tools:
            if self.is_apart:
                raise _refused("tools")
            if not isinstance(self.tools, dict):
                raise TypeError("tools must be a mapping")
            self.tools = {name: _tool_of_hook(name, tool) for name, tool in self.tools.items()}
            self._kept_tools = dict(self.tools)
            self.changed = ("tools",)
        if new_prompt:
            self.changed = ("system_prompt", *self.changed)
            self._kept_prompt = self.system_prompt

    def restore(self) -> None:
        self.blocked = None
        self.system_prompt, self.tools = self._kept_prompt, dict(self._kept_tools)


def _refused(name: str) -> TypeError:
    return TypeError(f"an independent hook may not change `{name}`: remove the mark")


def _tool_of_hook(name: Any, given: Any) -> Tool:
    if isinstance(given, ToolSpec):
        raise ScenarioError(
            f"a before_llm_call hook gave the tool `{name}` as a ToolSpec, which has no function",
            hint=f"give a Tool or a function: tools[{name!r}] = Tool(function, ...)",
        )
    if isinstance(given, Tool):
        return given if given.spec.name == name else given.named(name)
    if not isinstance(name, str) or not callable(given):
        raise TypeError("tools must map names to Tools or functions")
    return Tool(given, name=name)


class AfterLLMCall(Struct, frozen=True):
    """The hook point after a step, with the model's reply. It changes nothing."""

    changed: ClassVar[tuple[str, ...]] = ()
    step_number: int
    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    raw_finish_reason: str
    usage: Usage | None

    def keep(self) -> None:
        """Do nothing, because this hook point allows no change."""

    restore = keep


class BeforeToolCall(Blockable):
    """The hook point before a tool runs. It may change `arguments`, which are validated afterwards.

    `failure` is the error text for the model where a failed hook answers the call.
    """

    failure = ""

    def __init__(self, call: ToolCall, arguments: dict[str, Any]) -> None:
        self.call = call
        self.arguments = arguments
        self._kept = msgspec.json.encode(arguments)

    def keep(self) -> None:
        """Accept the changes of a hook; keep a JSON copy, since hooks may mutate arguments."""
        self._check_blocked()
        if not isinstance(self.arguments, dict):
            raise TypeError("arguments must be a mapping")
        if (kept := msgspec.json.encode(self.arguments)) != self._kept:
            if self.is_apart:
                raise _refused("arguments")
            self._kept = kept
            self.changed = ("arguments",)

    def restore(self) -> None:
        self.blocked = None
        self.arguments = msgspec.json.decode(self._kept)


class AfterToolCall:
    """The hook point after a tool ran or failed. It may replace `result`.

    `failure` is the error text for the model where a failed hook answers the call.
    """

    failure = ""
    changed: tuple[str, ...] = ()
    is_apart = False

    def __init__(self, call: ToolCall, arguments: dict[str, Any], result: ToolResult) -> None:
        self.call = call
        self.arguments = arguments
        self.result = self._kept = result

    def keep(self) -> None:
        result: Any = self.result
        if result is self._kept:
            return
        if not isinstance(result, ToolResult) or not isinstance(result.text, str):
            raise TypeError("result must be a ToolResult with a text")
        if self.is_apart:
            raise _refused("result")
        self._kept = self.result
        self.changed = ("result",)

    def restore(self) -> None:
        self.result = self._kept


HookInput: TypeAlias = BeforeLLMCall | AfterLLMCall | BeforeToolCall | AfterToolCall


def apart(given: HookInput) -> HookInput:
    """Return the input of an independent hook: the same data, which it may not change."""
    if isinstance(given, AfterLLMCall):
        return given
    own = copy(given)
    own.is_apart = True
    if isinstance(own, BeforeLLMCall):
        own.tools = dict(own.tools)
    else:
        own.arguments = deepcopy(own.arguments)
    return own


class Hooks:
    """Hooks by point, in the order in which they run. Each is a plain or an async function."""

    def __init__(
        self, *, before_llm_call: HookList = (), after_llm_call: HookList = (),
        before_tool_call: HookList = (), after_tool_call: HookList = (),
    ) -> None:  # fmt: skip
        self.before_llm_call = _functions(BEFORE_LLM_CALL, before_llm_call)
        self.after_llm_call = _functions(AFTER_LLM_CALL, after_llm_call)
        self.before_tool_call = _functions(BEFORE_TOOL_CALL, before_tool_call)
        self.after_tool_call = _functions(AFTER_TOOL_CALL, after_tool_call)

    def __add__(self, other: "Hooks") -> "Hooks":
        return Hooks(**{point: getattr(self, point) + getattr(other, point) for point in POINTS})

    def __bool__(self) -> bool:
        return any(getattr(self, point) for point in POINTS)


def _functions(point: str, hooks: HookList) -> tuple[UserFunction, ...]:
    given: Any = hooks
    if callable(given) or isinstance(given, str) or not isinstance(given, Iterable):
        hint = f"put it in a list: Hooks({point}=[function])"
        raise ScenarioError("the hooks of a point are a list", key=point, hint=hint)
    return tuple(hook if isinstance(hook, UserFunction) else UserFunction(hook) for hook in hooks)


class Callbacks(Struct, kw_only=True):
    """Functions that hear of a run. Their return values are ignored and their failures recorded.

    on_chunk(part): every part of the stream, and the result of each tool that ran as a
    ToolResultPart, before the more particular callbacks.
    on_text(text), on_tool_call(call), on_tool_result(call, result): as they happen.
    on_step_finish(step_number, finish_reason): once per step, after its tools.
    on_response(messages): the messages that the step adds to the context.
    on_compacted(tokens_before, tokens_after): after a compaction that helped.
    """

    on_chunk: Callback = None
    on_text: Callback = None
    on_tool_call: Callback = None
    on_tool_result: Callback = None
    on_step_finish: Callback = None
    on_response: Callback = None
    on_compacted: Callback = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (function := getattr(self, name)) is not None:
                setattr(self, name, UserFunction(function, name))
