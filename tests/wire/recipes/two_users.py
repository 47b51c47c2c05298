"""One Starlette app that serves two users at once, and a test client that asks for both."""

import asyncio

import httpx
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from titles_openai_chat import told


async def ask(request: Request) -> PlainTextResponse:
    user = request.headers["x-user"]
    async with AsyncOpenAI(default_headers={"x-user": user}) as client:
        return PlainTextResponse(await told(client, (await request.body()).decode()))


app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])


async def agent(question: str) -> str:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.example") as users:
        asked = [
            users.post("/ask", content=question, headers={"x-user": name}, timeout=60)
            for name in ("ada", "bob")
        ]
        replies = await asyncio.gather(*asked)
        return " ".join(reply.text for reply in replies)
