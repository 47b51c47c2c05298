"""Hostile and long texts of a run in a headless Chromium: they stay text, and fit the screen."""

from pathlib import Path

import pytest
from browsing import CHROMIUM, NO_CHROMIUM, Browser, shown, written
from hostiletraces import traces

from simloop.cursor.recorded_run import RecordedRun
from simloop.runs.run import Simulation
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]
HOSTILE_TAGS = (
    "document.querySelectorAll('b, img, iframe, script:not([id]):not(:last-of-type)').length"
)


_CONTROL = "[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u202e\\u2028\\ufeff]"


_WALK = (
    f"const control = /{_CONTROL}/;"
    """(async () => {
    const found = new Set();
    const shown = [...document.body.children].filter((each) => each.tagName !== "SCRIPT");
    document.body.style.display = "none";  // to lay it out at each entry takes most of the time
    for (let more = true; more;) {
        for (const { textContent: text } of shown) if (control.test(text)) found.add(text);
        const before = track.getAttribute('aria-valuenow');
        document.querySelector('[data-key="j"]').click();
        more = before !== track.getAttribute('aria-valuenow');
    }
    return [...found];
})()"""
)


def greeting(text: str) -> RecordedRun:
    simulation = Simulation(Scenario(title=text, prompt=text, model=[Reply(say=text)]))
    simulation.run()
    return RecordedRun.of_run(simulation, simulation.trace, {})


@pytest.mark.parametrize("width", [400, 1200])
def test_no_text_is_wider_than_the_screen(chromium: Browser, tmp_path: Path, width: int) -> None:
    long = "x" * 390
    chromium.open(written(tmp_path, greeting(long)), "#at=3", width=width)
    assert long in "\n".join(shown(chromium, "request"))
    assert chromium.ask("document.documentElement.scrollWidth") <= width
    wide = f"""[...document.querySelectorAll('.text')].filter((each) =>
        each.getBoundingClientRect().right > {width}).length"""
    assert chromium.ask(wide) == 0


@pytest.mark.parametrize("number", range(len(traces())))
def test_hostile_text_in_each_field_of_a_trace_stays_text(
    chromium: Browser, tmp_path: Path, number: int
) -> None:
    chromium.open(written(tmp_path, RecordedRun.of_trace(traces()[number])))
    assert chromium.ask(_WALK) == []
    assert chromium.ask(HOSTILE_TAGS) == 0
    assert chromium.told() == []


def test_markup_is_shown_as_it_is_written(chromium: Browser, tmp_path: Path) -> None:
    markup = '</script><script>forged = 1</script><img src=x onerror="forged = 1"><b>'
    chromium.open(written(tmp_path, greeting(markup)), "#at=3")
    assert markup in "\n".join(shown(chromium, "request"))
    assert chromium.ask("typeof forged") == "undefined"
    assert chromium.ask(HOSTILE_TAGS) == 0
    assert chromium.told() == []
