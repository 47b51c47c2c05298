"""Driving the replayer without a terminal: keys and clicks in, pictures and texts out."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from builders import recorded
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.pilot import Pilot

from simloop_tui.app import StepApp
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session
from simloop_tui.widgets.facts import FactsPane

_PLAINER = (
    (re.compile(r"<!--.*?-->\s*", re.DOTALL), ""),
    (re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL), ""),
    (re.compile(r"font-family:[^;]*;"), "font-family: monospace;"),
    (re.compile(r"terminal-\d+"), "t"),
    (re.compile(r' clip-path="url\(#t-line-\d+\)"'), ""),
    (re.compile(r'<clipPath id="t-line-\d+">\s*<rect[^>]*/>\s*</clipPath>\s*'), ""),
)


def unfolded(name: str = "start.quickstart") -> Session:
    """A session whose timeline has a row for each entry."""
    session = Session(recorded(name))
    session.fold_words()
    return session


class Picture(NamedTuple):
    svg: str
    text: str


def stepping(name: str = "start.quickstart") -> StepApp:
    return StepApp(ReplayScreen(Session(recorded(name), name)))


class Driven:
    """The application under a pilot."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

    @property
    def screen(self) -> ReplayScreen:
        screen = self.pilot.app.screen
        assert isinstance(screen, ReplayScreen)
        return screen

    @property
    def place(self) -> int:
        return self.screen.session.place

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def settled(self) -> None:
        """Wait for the threads, and for what they have sent."""
        await self.pilot.app.workers.wait_for_complete()
        await self.pilot.pause()

    def lines(self) -> list[str]:
        """The screen as it is painted."""
        app = self.pilot.app
        visible_screen_stack.set(app._background_screens)  # a dialog shows the screen below it
        strips = app.screen._compositor.render_strips()
        return [strip.text.rstrip() for strip in strips]

    def pane(self, name: str) -> list[str]:
        return [str(row) for row in self.screen.query_one(f"#{name}", FactsPane)._rows]

    async def click_on(self, text: str) -> None:
        """Click on the first place of the screen that shows `text`."""
        for y, line in enumerate(self.lines()):
            if text in line:
                await self.pilot.click(offset=(line.index(text), y))
                await self.pilot.pause()
                return
        raise AssertionError(f"{text!r} is not on the screen: {self.lines()}")

    def picture(self) -> Picture:
        svg = plain_svg(self.pilot.app.export_screenshot(simplify=True))
        return Picture(svg, "\n".join(self.lines()) + "\n")


def plain_svg(svg: str) -> str:
    """The picture without addresses of fonts, which a reader would load, and without clippings."""
    for pattern, replacement in _PLAINER:
        svg = pattern.sub(replacement, svg)
    return svg


def replayer_picture() -> str:
    """The picture in the README: the wait for a rate limit in the quickstart."""
    pictures = []

    async def act(driven: Driven) -> None:
        await driven.press("e", "j", "j", "j")
        before = ""
        while (now := driven.picture().svg) != before:  # a scrollbar is drawn after its pane
            before = now
            await driven.settled()
        pictures.append(now)

    drive(stepping(), act, (120, 40))
    return pictures[0]


def drive(
    app: StepApp,
    act: Callable[[Driven], Awaitable[None]],
    size: tuple[int, int] = (120, 40),
) -> None:
    """Run the application without a terminal and let `act` use it."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(Driven(pilot))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_update", _on_demand)
        asyncio.run(run())


_painted = Compositor.render_update


def _on_demand(compositor: Compositor, full: bool = False, **more: Any) -> Any:  # noqa: FBT001, FBT002
    """Paint a picture, and no change: nobody sees it, and it would take half of the time."""
    if full:
        return _painted(compositor, full, **more)
    return compositor._dirty_regions.clear()
