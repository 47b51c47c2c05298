"""Async tests beside pytest-asyncio and anyio: each test runs where its marker says."""

import os
import subprocess
from pathlib import Path

import pytest
from environments import built

CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
SETTINGS = """
[pytest]
markers =
    asyncio
    anyio
"""
TESTS = """
import asyncio

import anyio
import pytest
import simloop

def loop():
    return type(asyncio.get_running_loop()).__name__

@pytest.fixture
async def seven():
    await asyncio.sleep(100)
    yield 7

@pytest.mark.simloop
async def test_ours(seven, sim):
    assert (seven, sim.now) == (7, 100)

class TestIt:
    @pytest.mark.simloop
    @pytest.mark.parametrize("number", [1, 2])
    async def test_method(self, sim, number):
        await asyncio.sleep(500)

@pytest.mark.asyncio
async def test_of_asyncio():
    assert loop() != "VirtualLoop"

@pytest.mark.asyncio
@pytest.mark.simloop
async def test_both_asyncio(sim):
    await asyncio.sleep(1000)
    assert sim.now == 1000

@pytest.mark.anyio
async def test_of_anyio():
    await anyio.sleep(0)
    assert loop() != "VirtualLoop"

@pytest.mark.anyio
@pytest.mark.simloop
async def test_both_anyio(sim):
    await anyio.sleep(1000)
    assert sim.now == 1000
"""
UNMARKED = """
async def test_unmarked():
    await asyncio.sleep(1000)
    assert loop() == "VirtualLoop"
"""


@pytest.mark.frameworks
def test_other_plugins_for_async_tests_change_nothing(tmp_path: Path) -> None:
    python = built("async-plugins")

    def passes(source: str, *args: str) -> int:
        (tmp_path / "test_them.py").write_text(source)
        if "no:asyncio" not in args:  # it warns without the setting, and pytest does not know it
            args = (*args, "-o", "asyncio_default_fixture_loop_scope=function")
        command = [str(python), "-m", "pytest", "-q", "-W", "error", *args, "test_them.py"]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": ""}
        done = subprocess.run(
            command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return int(done.stdout.splitlines()[-1].split()[0])

    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    assert passes(TESTS) == 7
    assert passes(TESTS, "-p", "no:asyncio", "-k", "not of_asyncio") == 6
    assert passes(TESTS, "-p", "no:anyio", "-k", "not of_anyio") == 6
    for mode in (("--asyncio-mode=auto",), ("-o", "anyio_mode=auto")):
        assert passes(TESTS + UNMARKED, "-o", "simloop_auto=true", *mode) == 8
