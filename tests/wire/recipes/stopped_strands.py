"""An agent on strands-agents that its user stops after a second. boto3 tries nothing again."""

import asyncio

from botocore.config import Config
from strands import Agent
from strands.models import BedrockModel


async def agent(question: str) -> str:
    once = Config(retries={"total_max_attempts": 1})
    made = Agent(BedrockModel(boto_client_config=once), callback_handler=None)
    asyncio.get_running_loop().call_later(1, made.cancel)
    return (await made.invoke_async(question)).stop_reason
