"""Right runs in which an invariant once found a violation: worlds that a search has found."""

from incases import in_cases

from simloop import parse_scenario
from simloop.check.trial import Rules, failure_of
from simloop.runs.plan import Plan

RIGHT = {
    "a compaction drops one of two messages that came while the context was measured": """
        loop: pi
        loops: {pi: {steering: all}}
        compaction: {max_messages: 2, keep_turns: 1}
        prompt: Do the work.
        then: [And then?]
        queue: [{at: 0s, say: One.}, {at: 0s, say: Two.}]
        history: [{summary: They spoke of this and that.}, {user: Go on.}, {assistant: Gladly.}]
        model: [{say: Answer, lost: mid-output}, {say: Done., times: always}]
        summaries: [{finish: stop}, {finish: stop}]
    """,
    "a hook before a tool runs after an abort, too": """
        loop: pi@0.87.1
        prompt: Go.
        tool_execution: {order: sequential}
        abort: {after: finish}
        tools: {read: {}}
        hooks: [{at: before_tool_call}]
        model: [{call: {read: {}}}]
    """,
    "tools run beside each other if the sequential one is hidden": """
        loop: pi@0.87.1
        prompt: Go.
        tools: {read: {sequential: true}, search: {takes: 1s}}
        hooks: [{at: before_llm_call, hide_tools: [read]}]
        model: [{call: [{search: {}}, {read: {}}, {search: {}}]}, {say: Done.}]
    """,
    "tools run beside each other if a hook replaces the sequential one": """
        loop: pi@0.87.1
        prompt: Go.
        tools: {read: {sequential: true}, search: {takes: 1s}}
        hooks: [{at: before_llm_call, add_tools: {read: {description: Another one.}}}]
        model: [{call: [{search: {}}, {read: {}}, {search: {}}]}, {say: Done.}]
    """,
    "a call keeps its name when a later one has the same id": """
        loop: pi
        prompt: Go.
        tools: {read: {}, write: {}}
        hooks: [{at: before_tool_call, tool: write, arguments: {path: b}}]
        model: [{call: {read: {}, write: {}}, ids: [a, a]}, {say: Done.}]
    """,
    "a compaction is one of the steps that opencode enforces": """
        loop: opencode
        loops: {opencode: {steps: enforce}}
        limits: {max_steps: 3}
        prompt: Go.
        tools: {read: {}}
        context: {over: [true]}
        model: [{call: {read: {}}, times: 2}]
    """,
    "a failed reply stays if the hook of its call ends the run first": """
        loop: opencode
        hook_isolation: {on_failure: fail-run}
        prompt: Go.
        then: [And then?]
        tools: {read: {}}
        hooks: [{at: before_tool_call, hangs: true}]
        model:
          - {say: Look., call: {read: {}}, error: {message: too many, code: rate_limit_error}}
          - say: Done.
    """,
    "a message that comes while the context is measured may be taken after that": """
        loop: opencode
        compaction: {max_messages: 1, keep_turns: 2, strategy: drop-oldest}
        prompt: Go.
        abort: {after: request, nth: 2}
        queue: [{after: transition, nth: 4, say: And this?}]
        tools: {read: {}}
        model: [{call: {read: {}}}, {say: Done.}]
    """,
    "a message taken before a compaction stays newer than the prompt": """
        loop: pi
        compaction: {max_messages: 5, keep_turns: 4}
        history: [{user: An older question.}, {assistant: An older answer.}]
        prompt: Go.
        queue:
          - {after: request, say: And this?}
          - {after: compaction, nth: 2, say: And that?, follow_up: true}
        tools: {read: {}}
        model: [{call: {read: {}}, times: 4}, {say: Done., times: always}]
        summaries: [{say: They read., times: always}]
    """,
    "a hook ends a run that then waits, past its time, for a tool to be cancelled": """
        loop: opencode
        loops: {opencode: {parallel: true}}
        limits: {max_wall_clock: 1ms}
        hook_isolation: {on_failure: fail-run}
        prompt: Go.
        tools: {read: {takes: 1s, outlives_cancel: 200ms}, shell: {}}
        hooks: [{at: before_tool_call, tool: shell, raises: ""}]
        model: [{call: {read: {}, shell: {}}}]
    """,
    "a reply that reports more steps is one of the steps that opencode enforces": """
        loop: opencode
        loops: {opencode: {steps: enforce}}
        prompt: Go.
        tools: {read: {}}
        model: [{call: {read: {}}, steps: 2}, {say: Done.}]
    """,
    "a message of an aborted run stands before the next prompt": """
        abort: {at: 1s}
        queue: [{at: 0s, say: Also.}]
        prompt: Go.
        then: [Go on.]
        hooks: [{at: before_llm_call, takes: 2s}]
        model: [{finish: length}, {say: Done.}]
        summaries: [{finish: length}]
    """,
    "a hook that fails while the reply comes ends the run, and the reply so far stays": """
        tool_execution: {start: when-called}
        hook_isolation: {on_failure: fail-run}
        prompt: Go.
        then: [Go on.]
        tools: {read: {}}
        hooks: [{at: before_tool_call, raises: no}]
        model: [{say: I read., call: [{read: {}}, {read: {}}]}, {say: Done.}]
    """,
    "a hook that fails ends the run before the loop has got the failure of the reply": """
        tool_execution: {start: when-called}
        hook_isolation: {on_failure: fail-run}
        prompt: Go.
        then: [Go on.]
        tools: {read: {}}
        hooks: [{at: after_tool_call, hangs: true}]
        model: [{say: I read., call: {read: {}}, error: {message: broken}}, {say: Done.}]
    """,
    "a summary stays when the next one is of no use and turns are dropped instead": """
        compaction: {max_messages: 1, keep_turns: 1}
        queue: [{after: finish, say: Also.}]
        history: [{assistant: "An older "}]
        prompt: Go.
        model: [{say: Done.}]
        summaries: [{say: words}, {finish: content-filter}]
    """,
    "a tool that outlives the run of an agent returns in the next one": """
        loop: gathering:gathering
        abort: {at: 50ms}
        prompt: Go.
        then: [Go on.]
        tools: {search: {takes: 1s, outlives_cancel: 1ms}, shell: {takes: 1s}}
        model: [{call: [{search: {}}, {shell: {}}]}, {call: {read: {}, search: {}}}, {say: Done.}]
    """,
    "a tool that outlives the run of an agent has its own timeout": """
        loop: gathering:gathering
        abort: {at: 1s}
        prompt: Go.
        then: [Go on.]
        tools: {write: {takes: 1s, outlives_cancel: 1ms, timeout: 1s}, shell: {takes: 1s}}
        model: [{call: [{write: {}}, {shell: {}}], times: 2}, {say: Done.}]
    """,
    "a hook that ran for a stopped call counts among those of its calls": """
        loop: pi@0.87.1
        hook_isolation: {timeout: 5s}
        abort: {at: 1s}
        prompt: Go.
        then: [And then?]
        tools: {write: {hangs: true, timeout: 3s}}
        hooks: [{at: after_tool_call, tool: write, nth: 3, hangs: true, result: changed}]
        model: [{call: {write: {}}, times: 6}, {say: Done., times: always}]
    """,
    "a hook ends the run while another one that runs at once forbids the call": """
        hook_execution: {order: parallel}
        hook_isolation: {on_failure: fail-run}
        prompt: Go.
        tools: {write: {}}
        hooks:
          - {at: before_tool_call, independent: true, block: not this}
          - {at: before_tool_call, independent: true, takes: 1s, raises: broken}
        model: [{call: {write: {}}}]
    """,
    "hooks of one name that run at once end in another order than they are listed": """
        hook_execution: {order: parallel}
        prompt: Go.
        tools: {write: {parameters: {path: string?}}}
        hooks:
          - {at: before_tool_call, name: twin, independent: true, takes: 2s, block: too long}
          - {at: before_tool_call, name: twin, independent: true, takes: 1s, block: not allowed}
          - {at: before_llm_call, name: twin, independent: true, nth: 2, takes: 2s}
          - {at: before_llm_call, name: twin, independent: true, takes: 1s}
          - {at: before_llm_call, name: twin, nth: 2, system_prompt: Mine.}
        model: [{call: {write: {}}}, {say: Done., times: always}]
    """,
    "a hook that ends the run cancels the tools of a stopped batch a second time": """
        loop: pi@0.87.1
        hook_isolation: {on_failure: fail-run, timeout: 1s}
        abort: {at: 1s}
        prompt: Go.
        tools: {read: {}, write: {hangs: true, outlives_cancel: 1s}}
        hooks: [{at: after_tool_call, takes: 1s}]
        model: [{call: {read: {}, write: {}}}]
    """,
}


@in_cases(RIGHT)
def test_a_right_run_breaks_no_rule(claim: str) -> None:
    plan = Plan(parse_scenario(RIGHT[claim]), {})
    assert failure_of(plan, Rules(expectations=False)) is None, claim
