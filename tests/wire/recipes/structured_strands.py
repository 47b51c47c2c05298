"""An agent on strands-agents, with its default model, whose answer has fields."""

from pydantic import BaseModel
from strands import Agent


class Weather(BaseModel):
    city: str
    degrees: int


async def agent(question: str) -> str:
    made = Agent(callback_handler=None)
    result = await made.invoke_async(question, structured_output_model=Weather)
    return result.structured_output.city
