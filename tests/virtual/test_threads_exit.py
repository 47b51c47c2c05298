"""The exit of Python after a simulation that gave up threads."""

import subprocess
import sys

import pytest

GIVES_UP = """
import contextlib, os, threading, time
from concurrent.futures import ThreadPoolExecutor
from simloop import RunawayRun, ScenarioError, simulate

def refuses():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)

async def stubborn():
    threading.Thread(target=refuses).start()
    ThreadPoolExecutor(1).submit(refuses)

async def waits():
    ThreadPoolExecutor(1).submit(os.read, os.pipe()[0], 1)
    time.sleep(1)

for main, error in ((stubborn, RunawayRun), (waits, ScenarioError)):
    with contextlib.suppress(error):
        simulate(main())
print("given up")
"""


@pytest.mark.slow
@pytest.mark.each_python
def test_python_exits_and_says_nothing_after_threads_of_pools_were_given_up() -> None:
    command = [sys.executable, "-c", GIVES_UP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("given up\n", "")
