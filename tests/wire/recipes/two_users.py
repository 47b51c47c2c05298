"""One FastAPI app that serves two users at once, and a test client that asks for both."""

import asyncio
from typing import Annotated

import httpx
from fastapi import Body, FastAPI, Header
from openai import AsyncOpenAI
from titles_openai_chat import told

app = FastAPI()


@app.post("/ask")
async def ask(question: Annotated[str, Body()], x_user: Annotated[str, Header()]) -> str:
    async with AsyncOpenAI(default_headers={"x-user": x_user}) as client:
        return await told(client, question)


async def agent(question: str) -> str:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as users:
        asked = [
            users.post("/ask", json=question, headers={"x-user": name}, timeout=60)
            for name in ("ada", "bob")
        ]
        replies = await asyncio.gather(*asked)
        return " ".join(reply.json() for reply in replies)
