"""A request on google-genai that streams, and says how it is tried again."""

from google import genai
from google.genai import types

AGAIN = types.HttpOptions(retry_options=types.HttpRetryOptions())


async def agent(question: str) -> str:
    config = types.GenerateContentConfig(http_options=AGAIN)
    async with genai.Client().aio as client:
        pieces = await client.models.generate_content_stream(
            model="gemini-3-pro", contents=question, config=config
        )
        return "".join([piece.text or "" async for piece in pieces])
