"""The result of a failed tool is marked in a request, whether or not its format can say so."""

import pytest
from wire import Heard, posted

from simloop import Reply, Scenario, ScriptedTool, World, run
from simloop.messages import ToolCall, ToolMessage, UserMessage

BROKEN = ScriptedTool(raises="the disk is full")


@pytest.mark.parametrize(
    ("text", "is_error"), [("Error: the disk is full", True), ("It is full.", False)]
)
def test_a_failed_result_is_marked_if_its_text_came_back(text: str, is_error: bool) -> None:  # noqa: FBT001
    async def agent(prompt: str, world: World) -> None:
        await world.tools.run(ToolCall("a", "save", "{}"))
        call = {"id": "a", "type": "function", "function": {"name": "save", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": text},
        ]
        await Heard().listen(posted({"model": "gpt-5", "messages": messages}))

    scenario = Scenario(prompt="Save.", tools={"save": BROKEN}, model=[Reply(say="No.")])
    (request,) = run(scenario, loop=agent).requests
    assert request.messages[0] == UserMessage("Save.")
    assert request.messages[-1] == ToolMessage("a", text, is_error=is_error)
