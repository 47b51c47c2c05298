"""An agent on google-genai: a chat that streams, and calls its tools itself."""

import asyncio

from google import genai
from google.genai import types


async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(3)
    return f"It is sunny in {city}."


async def agent(question: str) -> str:
    options = types.HttpOptions(retry_options=types.HttpRetryOptions())
    async with genai.Client(http_options=options).aio as client:
        chat = client.chats.create(model="gemini-3-pro", config={"tools": [weather]})
        pieces = [piece.text or "" async for piece in await chat.send_message_stream(question)]
    return "".join(pieces)
