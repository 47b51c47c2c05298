"""Sessions of pytest in somebody's project: with a module of tests, or with async tests."""

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
            return (await provider.model.reply([UserMessage(question)])).message.text
        except ModelCallFailed:
            await asyncio.sleep(7)
"""


def session(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest in this process."""
    return project.runpytest_inprocess(*args)


def module(project: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    """Run a module of tests."""
    project.makepyfile(test_module=source)
    return session(project, "test_module.py", *args)


def async_module(project: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    """Run a module that begins with the agent above and its imports."""
    project.makepyfile(mine=AGENT)
    (project.path / "test_module.py").write_text("from mine import *\n" + source)
    return session(project, "test_module.py", "-rPf", *args)
