"""Modules with async tests in somebody's project, which the marker runs on the virtual clock."""

import pytest

# Loaded here, because a session of pytester forgets the modules that were first loaded in it.
import simloop.page.page  # noqa: F401

AGENT = """
import asyncio
import random

import pytest
import simloop
from simloop import Http, ModelCallFailed, Reply, UserMessage

async def my_agent(provider, question):
    for _ in range(5):
        try:
            return (await provider.reply([UserMessage(question)])).message.text
        except ModelCallFailed:
            await asyncio.sleep(7)
"""


def play(project: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    """Run a module that begins with the agent above and its imports."""
    project.makepyfile(mine=AGENT)
    body = "from mine import *\n" + source
    (project.path / "test_module.py").write_text(body)
    return project.runpytest_inprocess("-p", "no:syrupy", "test_module.py", "-rPf", *args)
