"""An agent on semantic-kernel."""

import asyncio

from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Forecasts:
    @kernel_function
    async def weather(self, city: str) -> str:
        """The weather in a city."""
        await asyncio.sleep(3)
        return f"It is sunny in {city}."


async def agent(question: str) -> str:
    model = OpenAIChatCompletion(ai_model_id="gpt-5")
    made = ChatCompletionAgent(service=model, plugins=[Forecasts()])
    return str(await made.get_response(question))
