"""An agent on pydantic-ai that asks before it deletes: deferred tools, and messages in a file."""

import json
from pathlib import Path

from pydantic_ai import (
    Agent,
    AgentRunResult,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    Tool,
    ToolDenied,
)

import simloop


@simloop.traced
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is deleted."


@simloop.traced
def pay(bill: str) -> str:
    """Pay a bill."""
    return f"{bill} is paid."


cleaner = Agent(
    "openai-chat:gpt-5",
    tools=[Tool(delete, requires_approval=True), pay],
    output_type=[str, DeferredToolRequests],
)


class Cleaner:
    def __init__(self, file: Path) -> None:
        self.file = file

    async def __call__(self, text: str) -> str:
        if not self.file.exists():
            return self.answer(await cleaner.run(text))
        messages, asked, answers = json.loads(self.file.read_text())
        self.file.unlink()
        answers[asked.pop(0)] = text
        if asked:
            return self.ask(messages, asked, answers)
        given = DeferredToolResults()
        for call, each in answers.items():
            given.approvals[call] = each == "yes" or ToolDenied(f"The user says: {each}")
        history = ModelMessagesTypeAdapter.validate_python(messages)
        return self.answer(await cleaner.run(message_history=history, deferred_tool_results=given))

    def answer(self, result: AgentRunResult[str | DeferredToolRequests]) -> str:
        if not isinstance(result.output, DeferredToolRequests):
            return result.output
        asked = [call.tool_call_id for call in result.output.approvals]
        return self.ask(json.loads(result.all_messages_json()), asked, {})

    def ask(self, messages: list[object], asked: list[str], answers: dict[str, str]) -> str:
        self.file.write_text(json.dumps([messages, asked, answers]))
        return f"May I make the call {asked[0]}?"


def agent() -> Cleaner:
    return Cleaner(simloop.folder() / "messages.json")
