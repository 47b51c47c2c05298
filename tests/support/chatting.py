"""An agent over HTTP in the chat format, which tries again, streams, and asks a service."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from recordedfiles import CHAT_TOOLS, CHAT_URL, RESULT

WEATHER_URL = "https://weather.example/rome?unit=c"
_MOST = 12


def chat_agent(
    *,
    begins: list[Any] | None = None,
    asks_service: bool = True,
    streams: bool = True,
    result: str = RESULT,
) -> Callable[[str], str]:
    """Return the agent of `recordedfiles.EXCHANGES`; `begins` are messages before the prompt."""

    def agent(prompt: str) -> str:
        messages = [*(begins or ()), {"role": "user", "content": prompt}]
        for _ in range(_MOST):
            in_pieces = streams and messages[-1]["role"] == "tool"
            body: dict[str, Any] = {"model": "gpt-5", "messages": messages, "tools": CHAT_TOOLS}
            body |= {"stream": True} if in_pieces else {}
            said = _said(*asked(CHAT_URL, body), streams=in_pieces)
            if said is None:
                continue
            if not said.get("tool_calls"):
                return str(said["content"])
            messages.append(said)
            for call in said["tool_calls"]:
                if asks_service:
                    assert json.loads(asked(WEATHER_URL)[1]) == {"degrees": 31}
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return "no answer"

    return agent


def asked(url: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """Return the status and the text of an answer; a request with a body is a POST of JSON."""
    data = None if body is None else json.dumps(body).encode()
    told = {"content-type": "application/json", **headers}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, told)) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _said(status: int, text: str, *, streams: bool) -> dict[str, Any] | None:
    """Return what a model said; None for a failure, and for a stream that has no end."""
    if status != 200:
        return None
    if not streams:
        return dict(json.loads(text)["choices"][0]["message"])
    data = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    if data[-1:] != ["[DONE]"]:
        return None
    deltas = [json.loads(each)["choices"][0]["delta"] for each in data[:-1]]
    return {"content": "".join(each.get("content") or "" for each in deltas)}
