"""An agent on the OpenAI Agents SDK that asks before it deletes: RunState in a file."""

from pathlib import Path

from agents import Agent, Runner, RunState, function_tool

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
    name="cleaner",
    instructions="Delete files.",
    tools=[function_tool(delete, needs_approval=True), function_tool(pay)],
)


class Cleaner:
    def __init__(self, file: Path) -> None:
        self.file = file

    async def __call__(self, text: str) -> str:
        given = text
        if self.file.exists():
            given = await RunState.from_string(cleaner, self.file.read_text())
            self.file.unlink()
            asked = given.get_interruptions()[0]
            if text == "yes":
                given.approve(asked)
            else:
                given.reject(asked, rejection_message=f"The user says: {text}")
        result = await Runner.run(cleaner, given)
        if not result.interruptions:
            return str(result.final_output)
        self.file.write_text(result.to_state().to_string())
        return f"Delete {result.interruptions[0].arguments}?"


def agent() -> Cleaner:
    return Cleaner(simloop.folder() / "state.json")
