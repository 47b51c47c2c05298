"""Faults of hooks: their order, their scope, and their effect."""

from fault import Edit, Fault

_HANDLERS = "simloop.engine.handlers:EffectHandlers"
_HOOKS = "simloop.engine.hooks"

FAULTS = (
    Fault(
        name="hidden-tools-stay-hidden",
        says="Tools that a hook withholds from one call stay withheld from all later calls.",
        target=f"{_HANDLERS}._call_model",
        replace="(port.tools, port.specs) if effect.tools",
        by="(self._step_tools, port.specs) if effect.tools",
        circumstances=("a hook that changes the tools once", "a later call"),
        violates=("hook-changes-apply-to-one-request",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}, pay: {returns: paid}}
            hooks: [{at: before_llm_call, nth: 1, hide_tools: [pay]}]
            model: [{call: {look: {}}}, {call: {pay: {}}}, {say: Done.}]
        """,
        right="{tools_run: [look, pay]}",
        wrong="{tools_run: [look]}",
    ),
    Fault(
        name="system-prompt-of-a-hook-stays",
        says="A system prompt that a hook sets for one call stays for all later calls.",
        target=f"{_HANDLERS}._call_model",
        replace="system_prompt = settings.system_prompt",
        by='system_prompt = getattr(self, "_newest_prompt", settings.system_prompt)',
        more=(
            Edit(
                f"{_HANDLERS}._call_model",
                "system_prompt = writable(given.system_prompt)",
                "system_prompt = self._newest_prompt = writable(given.system_prompt)",
            ),
        ),
        circumstances=("a hook that sets the system prompt once", "a later call"),
        violates=("hook-changes-apply-to-one-request",),
        witness="""
            prompt: Go.
            system_prompt: Be kind.
            tools: {look: {returns: ok}}
            hooks: [{at: before_llm_call, nth: 1, system_prompt: Be short.}]
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{system_prompts: [Be short., Be kind.]}",
        wrong="{system_prompts: [Be short., Be short.]}",
    ),
    Fault(
        name="failed-hook-has-set-the-prompt",
        says="The system prompt that a hook sets before it fails is sent.",
        target=f"{_HOOKS}:BeforeLLMCall.restore",
        replace="self.system_prompt, self.tools = self._kept_prompt, dict(self._kept_tools)",
        by="self.tools = dict(self._kept_tools)",
        circumstances=("a hook that changes something", "its failure"),
        violates=("hook-changes-apply-to-one-request",),
        witness="""
            prompt: Go.
            system_prompt: Be kind.
            hooks: [{at: before_llm_call, system_prompt: Be short., waits: after, hangs: true}]
            model: [{say: Done.}]
        """,
        right="{system_prompts: [Be kind.]}",
        wrong="{system_prompts: [Be short.]}",
    ),
    Fault(
        name="failed-hook-has-changed-the-arguments",
        says="The tool gets the arguments that a hook sets before it fails.",
        target=f"{_HOOKS}:BeforeToolCall.restore",
        replace="self.arguments = msgspec.json.decode(self._kept)",
        by="pass",
        circumstances=("a hook that changes something", "its failure"),
        violates=("hook-changes-to-arguments-apply",),
        witness="""
            prompt: Go.
            tools: {pay: {parameters: {sum: integer}, returns: paid}}
            hooks: [{at: before_tool_call, arguments: {sum: 1000}, waits: after, hangs: true}]
            model: [{call: {pay: {sum: 1}}}, {say: Done.}]
        """,
        right="{calls: [{pay: {sum: 1}}]}",
        wrong="{calls: [{pay: {sum: 1000}}]}",
    ),
    Fault(
        name="later-hooks-run-first",
        says="The hooks after a tool run in the reverse order.",
        target="simloop.engine.user_code:UserCode.fire",
        replace="for hook in hooks:",
        by='for hook in reversed(hooks) if point == "after_tool_call" else hooks:',
        circumstances=("a hook after a tool", "another one"),
        violates=("tool-call-hooks-in-order",),
        witness="""
            prompt: Go.
            tools: {look: {returns: ok}}
            hooks:
              - {at: after_tool_call, name: a, result: one}
              - {at: after_tool_call, name: b, result: two}
            model: [{call: {look: {}}}, {say: Two., when: {contains: two}},
              {say: One., times: always}]
        """,
        right="{text: Two., hooks: [after_tool_call a ok, after_tool_call b ok], unused: 1}",
        wrong="{text: One., hooks: [after_tool_call b ok, after_tool_call a ok], unused: 1}",
    ),
    Fault(
        name="second-veto-ignored",
        says="If a hook forbids two calls of a reply, the second call is run.",
        target="simloop.engine.tool_calls:ToolCalls._is_answered_by_hook",
        replace="elif given.blocked is not None:",
        by="elif given.blocked is not None and self.blocked is None:",
        circumstances=("a forbidden call", "another one in the same reply"),
        violates=("tool-call-hooks-in-order",),
        witness="""
            prompt: Go.
            tools: {pay: {returns: paid}}
            hooks: [{at: before_tool_call, block: Ask first.}]
            model: [{call: [{pay: {}}, {pay: {}}]}, {say: Done.}]
        """,
        right="{tools_run: []}",
        wrong="{tools_run: [pay]}",
    ),
    Fault(
        name="hooks-do-not-see-failures",
        says="The hooks after a tool do not run for a call that failed.",
        bug="D20",
        target="simloop.engine.tool_calls:ToolCalls._run_on",
        replace="reported = self._report_failures or not result.is_error",
        by="reported = not result.is_error",
        circumstances=("a hook after a tool", "a tool that fails"),
        violates=("tool-call-hooks-in-order",),
        witness="""
            prompt: Go.
            tools: {look: {raises: broken}}
            hooks: [{at: after_tool_call, name: note}]
            model: [{call: {look: {}}}, {say: Done.}]
        """,
        right="{hooks: [after_tool_call note ok]}",
        wrong="{hooks: []}",
    ),
)
