"""Time in tests: how long the fake model takes, and how long user code does."""

import asyncio
from typing import Any

from simloop.scenario.replies import Pace

MS = 1_000_000


def paced(**waits: str) -> Pace:
    return Pace.model_validate(waits)


async def nap(milliseconds: float, value: Any = "") -> Any:
    await asyncio.sleep(milliseconds / 1_000)
    return value
