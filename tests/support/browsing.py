"""A headless Chromium that is driven through a pipe, with no driver and no network.

The protocol is JSON objects with a NUL after each, on descriptors 3 and 4 of the browser.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simloop.cursor.recorded_run import RecordedRun
from simloop.page.page import page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
NO_CHROMIUM = "there is no chromium (in Debian: apt-get install chromium)"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-extensions",
    "--disable-features=MediaRouter,OptimizationHints,Translate",
    "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page of a browser, of which tests ask questions in JavaScript."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._read = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank"}, session="")
        attached = self._call(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}, session=""
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, fragment: str = "", *, width: int = 1200) -> None:
        """Open a file anew, and wait until it is loaded."""
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)
        for address in ("about:blank", f"{path.as_uri()}{fragment}"):
            self.events.clear()
            self._call("Page.navigate", {"url": address})
            while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
                self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", given)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys as a person does."""
        for key in keys:
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            down = {"type": "keyDown", "key": key, "text": text}
            code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
            for event in (down, {"type": "keyUp", "key": key}):
                self._call("Input.dispatchKeyEvent", {**event, "windowsVirtualKeyCode": code})

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true: a link of a page is followed after its key."""
        deadline = time.monotonic() + 10
        while not self.ask(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.01)

    def mouse(self, kind: str, x: float, y: float, buttons: int = 0) -> None:
        """Move or press the mouse."""
        given = {"type": kind, "x": x, "y": y, "button": "left" if buttons else "none"}
        self._call("Input.dispatchMouseEvent", {**given, "buttons": buttons, "clickCount": 1})

    def told(self) -> list[str]:
        """Return the errors and warnings of the page, and each address that it asked for."""
        told = []
        for event in self.events:
            given = event.get("params", {})
            match event.get("method"):
                case "Runtime.exceptionThrown":
                    told.append(str(given["exceptionDetails"]))
                case "Log.entryAdded":
                    told.append(given["entry"]["text"])
                case "Network.requestWillBeSent" if given["documentURL"] != given["request"]["url"]:
                    told.append(given["request"]["url"])
                case "Page.javascriptDialogOpening":
                    told.append(given["message"])
        return told

    def _call(self, method: str, given: Any = None, session: str | None = None) -> Any:
        self._number += 1
        command = {"id": self._number, "method": method, "params": given or {}}
        if session is None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message)
                return message["result"]
            self.events.append(message)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser has ended"
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Yield a browser whose files are in `folder`; end it afterwards."""
    assert CHROMIUM is not None, NO_CHROMIUM
    reads, commands = os.pipe()
    answers, writes = os.pipe()
    # Not sh: that of Debian knows no descriptor with two digits.
    redirected = f'exec "$@" 3<&{reads} 4>&{writes}'
    command = ["bash", "-c", redirected, "bash", CHROMIUM, *_FLAGS, f"--user-data-dir={folder}"]
    with subprocess.Popen(
        command, pass_fds=(reads, writes), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        os.close(reads)
        os.close(writes)
        try:
            yield Browser(commands, answers)
        finally:
            os.close(commands)
            os.close(answers)
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests of the page."""
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def written(folder: Path, recording: RecordedRun) -> Path:
    """Write the page of a run, and return its path."""
    path = folder / "page.html"
    path.write_text(page(recording), "utf-8")
    return path


def shown(chromium: Browser, name: str) -> list[str]:
    """The rows of a pane, as `simloop show` writes them."""
    rows: list[str] = chromium.ask(
        f"""[...document.querySelectorAll('#pane-{name} .row')].map((row) =>
            ['.mark', '.line'].map((part) => row.querySelector(part).textContent).join(' '))"""
    )
    return [row.rstrip() for row in rows]
