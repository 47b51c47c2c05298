"""A handoff on the OpenAI Agents SDK whose session cannot be written once: the run is resumed."""

from agents import Agent, Runner, RunResultStreaming
from agents.items import TResponseInputItem
from agents.memory import SessionABC

refunds = Agent(name="refunds", instructions="You give money back.")
triage = Agent(name="triage", instructions="You sort questions.", handoffs=[refunds])


class Stored(SessionABC):
    """A session in memory. The disk is full when it is written for the second time."""

    session_id, session_settings = "stored", None

    def __init__(self) -> None:
        self.items: list[TResponseInputItem] = []
        self.writes = 0

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        return self.items[-(limit or len(self.items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        self.writes += 1
        if self.writes == 2:
            raise OSError("the disk is full")
        self.items += items

    async def pop_item(self) -> TResponseInputItem | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


async def heard(result: RunResultStreaming) -> str:
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


async def agent(question: str) -> str:
    session = Stored()
    result = Runner.run_streamed(triage, question, session=session)
    try:
        return await heard(result)
    except OSError:
        return await heard(Runner.run_streamed(triage, result.to_state(), session=session))
