"""An agent on boto3: Bedrock's ConverseStream, with a tool."""

import json
import time
from typing import Any

import boto3

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"toolSpec": {"name": "weather", "inputSchema": {"json": CITY}}}]


def weather(city: str) -> str:
    time.sleep(3)
    return f"It is sunny in {city}."


def answer(use: dict[str, Any]) -> dict[str, Any]:
    try:
        said, status = weather(**json.loads(use["input"] or "{}")), "success"
    except (TypeError, ValueError) as error:
        said, status = f"Error: {error}", "error"
    result = {"toolUseId": use["toolUseId"], "content": [{"text": said}], "status": status}
    return {"toolResult": result}


def agent(question: str) -> str:
    client = boto3.client("bedrock-runtime")
    messages: list[Any] = [{"role": "user", "content": [{"text": question}]}]
    for _ in range(10):
        text, uses, stop = "", {}, ""
        reply = client.converse_stream(
            modelId="us.anthropic.claude-sonnet-5-v1:0",
            messages=messages,
            toolConfig={"tools": TOOLS},
        )
        for event in reply["stream"]:
            if "contentBlockStart" in event:
                started = event["contentBlockStart"]
                uses[started["contentBlockIndex"]] = {**started["start"]["toolUse"], "input": ""}
            if "contentBlockDelta" in event:
                grown = event["contentBlockDelta"]
                text += grown["delta"].get("text", "")
                if "toolUse" in grown["delta"]:
                    piece = grown["delta"]["toolUse"]["input"]
                    uses[grown["contentBlockIndex"]]["input"] += piece
            stop = event.get("messageStop", {}).get("stopReason", stop)
        if stop not in ("end_turn", "tool_use"):
            raise RuntimeError(f"the reply ended with {stop or 'no reason'}")
        if not uses:
            return text
        asked = [{"toolUse": {**use, "input": given(use["input"])}} for use in uses.values()]
        said = [{"text": text}] if text else []
        messages.append({"role": "assistant", "content": said + asked})
        messages.append({"role": "user", "content": [*map(answer, uses.values())]})
    raise RuntimeError("no answer after 10 requests")


def given(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
