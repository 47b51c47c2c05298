"""The page in a headless Chromium: keys, mouse, links to an entry, filters and marks."""

from pathlib import Path

import pytest
from agents import of_shop
from browsing import CHROMIUM, NO_CHROMIUM, Browser, shown, written

from simloop.cursor.index import Landmark, Watched
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position, place_of
from simloop.cursor.recorded_run import RecordedRun, opened_run
from simloop.cursor.rows import Mark, words_of
from simloop.cursor.views import view
from simloop.runs.run import Simulation
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.trace.kinds import USUAL_LANES, clock, kind_of, legend

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]
SELECTED = "document.querySelector('[aria-selected=true]').id"
SAID = "document.getElementById('said').textContent"


@pytest.fixture(scope="module")
def recording() -> RecordedRun:
    return opened_run("quickstart")


@pytest.fixture(scope="module")
def file(recording: RecordedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), recording)


def place(chromium: Browser) -> int:
    """The entry at the cursor: in the address, in the timeline and in the scrubber."""
    selected = int(chromium.ask(SELECTED).removeprefix("entry-"))
    assert selected == chromium.ask("Number(track.getAttribute('aria-valuenow'))")
    return selected


def test_it_opens_without_an_error_and_asks_for_no_address(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    assert place(chromium) == 0
    chromium.press("j", "/")
    assert chromium.told() == []


def test_the_panes_show_the_rows_of_the_views_at_each_entry(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    last = len(recording.entries) - 1
    for at in [*range(0, last, 5), last, last - 3, 7, 0]:  # forwards, then back
        chromium.ask(f"location.hash = '#at={at}'; new Promise((done) => setTimeout(done))")
        assert place(chromium) == at
        for name in FactView:
            expected = [str(row) for row in view(name, Position(recording, at))]
            assert shown(chromium, name) == expected, (at, name)


def test_a_long_request_is_shown_at_its_end_below_its_heading(
    chromium: Browser, tmp_path: Path
) -> None:
    replies = [Reply(say=f"Step {n}.", call={"look": {}}) for n in range(20)]
    simulation = Simulation(
        Scenario(
            prompt="Go.",
            model=[*replies, Reply(say="Done.")],
            tools={"look": {"returns": "rain"}},
        )
    )
    simulation.run()
    made = RecordedRun.of_run(simulation, simulation.trace, {})
    chromium.open(written(tmp_path, made))
    chromium.press("G")
    box = "document.querySelector('#pane-request .rows').getBoundingClientRect()"
    places = [
        f"[...document.querySelectorAll('#pane-request .row')].at({number}).getBoundingClientRect()"
        for number in (0, -1)
    ]
    for place_of_row in places:
        assert chromium.ask(f"{place_of_row}.top >= {box}.top - 4")
        assert chromium.ask(f"{place_of_row}.bottom <= {box}.bottom")


def test_a_link_to_an_entry_or_a_time_opens_there(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    for named in ("12", "5.2s", "5700ms", "0s"):
        chromium.open(file, f"#at={named}")
        assert place(chromium) == place_of(recording.trace, named)
    chromium.open(file, "#at=<b>")
    assert place(chromium) == 0


def test_the_keys_move_as_in_the_terminal(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press("u")
    last = len(recording.entries) - 1
    chromium.press("j", "j", "k", "ArrowDown")
    assert place(chromium) == 2
    chromium.press("G")
    assert place(chromium) == last
    chromium.press("j")
    assert place(chromium) == last
    assert chromium.ask(SAID) == "this is the last entry"
    chromium.press("g", "PageDown")
    assert place(chromium) == 20
    for key, back, landmark in (("e", "E", Landmark.FAULT), ("t", "T", Landmark.TOOL_CALL)):
        chromium.press("g", key)
        first = recording.index.next(landmark, 0)
        assert place(chromium) == first
        chromium.press("G", back)
        assert place(chromium) == recording.index.previous(landmark, last)
    chromium.press("G", "c")
    assert chromium.ask(SAID) == "there is no later compaction"


def test_the_changes_of_a_watched_value_are_found_in_both_directions(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press("x")
    assert chromium.ask(SAID) == "w and W now go to the changes of error_count"
    changes = recording.index.changes[Watched.ERROR_COUNT]
    for change in changes:
        chromium.press("w")
        assert place(chromium) == change
    chromium.press("w")
    assert chromium.ask(SAID) == "error_count does not change any more"
    chromium.press("W")
    assert place(chromium) == changes[-2]


def test_a_run_plays_to_its_end_and_pauses(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    later = "new Promise((done) => setTimeout(done, {}))"
    chromium.press("+", "+", "+", "+")
    assert chromium.ask(SAID) == "it plays at speed 16"
    chromium.press(" ")
    chromium.ask(later.format(100))
    chromium.press(" ")
    paused = place(chromium)
    assert paused > 0
    chromium.ask(later.format(100))
    assert place(chromium) == paused
    last = chromium.ask("Number(track.getAttribute('aria-valuemax'))")
    chromium.press("G", "k", "i", " ")
    chromium.ask(later.format(400))
    assert place(chromium) == last
    assert chromium.ask(SAID) == "this is the last entry"


def test_go_to_takes_an_entry_or_a_time_and_says_that_there_is_none(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press(":", *"5.2s", "Enter")
    assert place(chromium) == place_of(recording.trace, "5.2s")
    chromium.press(":", *"9999", "Enter")
    assert place(chromium) == place_of(recording.trace, "5.2s")
    assert "there is no entry or time" in chromium.ask(SAID)


def test_a_search_finds_words_of_the_timeline_and_of_the_panes(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press("/", *"too many requests", "Enter")
    failed = recording.index.landmarks[Landmark.FAULT][0]
    assert place(chromium) == failed
    assert "Too Many Requests" in words_of(recording.entries[failed])
    chromium.press("g", "/", *"the trigger of", "Enter")  # words of a pane alone
    first = place(chromium)
    assert not any("the trigger of" in words_of(each) for each in recording.entries)
    assert "the trigger of" in " ".join(shown(chromium, "why"))
    chromium.press("n")
    assert place(chromium) >= first
    chromium.press("N")
    assert place(chromium) == first
    chromium.press("/", *"zzz", "Enter")
    assert chromium.ask(SAID) == 'nothing has "zzz"'


def lines(chromium: Browser) -> list[str]:
    """The lines of the timeline, without those of gaps."""
    found: list[str] = chromium.ask(
        "[...document.querySelectorAll('#lines [role=option]')].map((each) => each.textContent)"
    )
    return found


def hide(chromium: Browser, *kinds: str) -> None:
    """Hide kinds of entries, in the order in which the run has them."""
    chromium.press("f")
    for kind in kinds:
        chromium.ask(
            "[...document.querySelectorAll('#kinds label')]"
            f".find((each) => each.textContent.startsWith('{kind} ')).click()"
        )
    chromium.press("Escape")


def test_each_line_has_the_number_of_its_entry(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press("u")
    for number, line in enumerate(lines(chromium)):
        assert line.split()[0].startswith(f"{number}{clock(recording.entries[number].at_ns)}")
    assert f"entries 0 to {len(recording.entries) - 1}." in chromium.ask("document.body.innerText")


def test_a_filter_by_kind_hides_the_lines_and_moves_pass_over_them(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    chromium.press("u")
    hide(chromium, "transition", "request")
    kept = [
        place
        for place, entry in enumerate(recording.entries)
        if kind_of(entry) not in {"transition", "request"}
    ]
    count = len(recording.entries)
    assert f"({len(kept)} of {count} entries: f shows others)" in chromium.ask("run.innerText")
    assert not any("-> " in line for line in lines(chromium))
    seen = [place(chromium)]
    for _ in kept:
        chromium.press("j")
        seen.append(place(chromium))
    assert seen == [*kept, kept[-1]]
    assert chromium.ask(SAID) == "this is the last entry; the filter hides some entries"
    chromium.press("k", "g", "m")  # a request, which is hidden
    assert place(chromium) == 0
    assert chromium.ask(SAID) == "there is no later model call; the filter hides some entries"
    chromium.press(":", "9", "Enter")  # the entries 8 to 10 are hidden
    assert place(chromium) == 11
    assert chromium.ask(SAID) == "entry 9 is hidden; 11 is the nearest"
    chromium.press("f", "a", "f")
    assert chromium.ask(SAID) == "all entries are shown"
    chromium.press("g", "m")
    assert place(chromium) == recording.index.landmarks[Landmark.MODEL_CALL][0]


def test_the_filter_keeps_one_kind_and_its_boxes_are_reached_by_keys(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    kinds = list(dict.fromkeys(map(kind_of, recording.entries)))
    hide(chromium, *kinds)
    assert chromium.ask(SAID) == "one kind of entries is always shown"
    assert "(1 of 56 entries: f shows others)" in chromium.ask("run.innerText")
    (line,) = lines(chromium)
    assert line.startswith(" 557.490s=usercompleted")
    chromium.press("f", "ArrowDown", " ")
    assert chromium.ask("document.activeElement.parentElement.textContent") == "transition 17"
    assert chromium.ask("document.activeElement.checked")
    chromium.press("q", "g")
    assert place(chromium) == recording.index.landmarks[Landmark.TRANSITION][0]


@pytest.fixture
def of_agent(tmp_path: Path) -> Path:
    return written(tmp_path, of_shop())


def test_a_text_is_one_line_and_a_key_and_a_link_show_its_words(
    chromium: Browser, of_agent: Path
) -> None:
    recording = of_shop()
    (text, *_) = recording.index.texts
    chromium.open(of_agent, f"#at={text[0]}")
    assert place(chromium) == text[0]
    chromium.press("u")
    assert place(chromium) == text[-1]
    assert chromium.ask(SAID) == "each text on one line"
    (line,) = [each for each in lines(chromium) if "text Let me look" in each]
    assert line.split()[0].startswith(f"{text[-1]}0.600s")
    chromium.press("k")
    assert place(chromium) == text[0] - 1
    chromium.press("/", *"me look", "Enter")  # words of several pieces
    assert place(chromium) == text[-1]
    chromium.press("u", "k")
    assert place(chromium) == text[-2]
    assert chromium.told() == []


def test_a_call_that_the_messages_show_has_a_line_in_the_lane_of_the_tools(
    chromium: Browser, of_agent: Path
) -> None:
    recording = of_shop()
    ((request, _),) = recording.index.answers.items()
    chromium.open(of_agent)
    (line,) = chromium.ask(
        "[...document.querySelectorAll('#lines .lane-tools')].map((each) => each.textContent)"
    )
    assert 'lookup {"order":"17"}: shipped [call-1]' in line
    chromium.ask("document.querySelector('#lines .lane-tools').click()")
    assert place(chromium) == request
    chromium.press("G", "T")
    assert place(chromium) == recording.index.landmarks[Landmark.TOOL_CALL][0]


def test_a_run_that_fails_opens_where_it_first_goes_wrong(
    chromium: Browser, tmp_path: Path
) -> None:
    recording = of_shop(requests=1)
    chromium.open(written(tmp_path, recording))
    assert place(chromium) == recording.first_place > 0
    assert "expect.requests does not hold" in chromium.ask(
        "document.querySelector('header').innerText"
    )
    assert shown(chromium, "why")[0].startswith("  expect.requests here: expected 1, got 2")


def test_marks_are_set_found_shown_and_removed(chromium: Browser, file: Path) -> None:
    chromium.open(file, "#at=20")
    chromium.press("b")
    assert chromium.ask(SAID) == "entry 20 is marked"
    chromium.press("g", "j", "j", "b", "G", "[")
    assert place(chromium) == 20
    chromium.press("[")
    assert place(chromium) == 2
    assert [line[:3] for line in lines(chromium) if line.startswith("b")] == ["b 2", "b20"]
    chromium.press("[")
    assert chromium.ask(SAID) == "there is no earlier mark: b sets one"
    chromium.press("]", "b", "g", "]", "]")
    assert chromium.ask(SAID) == "there is no later mark: b sets one"
    assert place(chromium) == 2


def test_the_help_explains_the_signs_of_the_lines_and_of_the_rows(
    chromium: Browser, file: Path
) -> None:
    chromium.open(file)
    chromium.press("?")
    told = chromium.ask("signs.textContent")
    for lane in USUAL_LANES:
        for sign, meaning in legend()[lane].items():
            assert f"{sign} {meaning}" in told
    for mark in Mark:
        assert not mark.words or f"{mark} {mark.words}" in told


def test_the_help_lists_all_keys_and_escape_closes_it(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    chromium.press("?")
    assert "next compaction" in chromium.ask("help.innerText")
    chromium.press("j")
    assert place(chromium) == 0
    chromium.press("Escape")
    assert not chromium.ask("help.open")
    assert chromium.told() == []


def test_the_scrubber_is_clicked_and_dragged(chromium: Browser, file: Path) -> None:
    chromium.open(file)
    left, width, top = chromium.ask(
        "(({ left, width, top }) => [left, width, top])(track.getBoundingClientRect())"
    )
    chromium.mouse("mousePressed", left + width / 2, top + 20, buttons=1)
    last = chromium.ask("Number(track.getAttribute('aria-valuemax'))")
    assert abs(place(chromium) - last / 2) <= 1
    chromium.mouse("mouseMoved", left + width - 5, top + 20, buttons=1)
    assert place(chromium) == last
    chromium.mouse("mouseReleased", left + width - 5, top + 20)
    chromium.ask("axis.click()")
    chromium.mouse("mousePressed", left + width / 2, top + 20, buttons=1)
    chromium.mouse("mouseReleased", left + width / 2, top + 20)
    assert chromium.ask("axis.textContent") == "i \N{BALLOT BOX WITH CHECK} by time"
    half, whole = chromium.ask(
        "['aria-valuenow', 'aria-valuemax'].map((name) => track.getAttribute(name))"
    )
    assert int(half) < int(whole) / 2  # the wait of 5 s takes most of the time


INK = """(() => {
    const { width, height } = strips, context = strips.getContext("2d");
    return context.getImageData(0, 0, width, height).data.filter((_, at) => at % 4 === 3)
        .filter((alpha) => alpha > 0).length;
})()"""


def test_the_overview_draws_each_entry_and_each_mark_and_the_address_follows(
    chromium: Browser, file: Path, recording: RecordedRun
) -> None:
    chromium.open(file)
    entries = chromium.ask(INK)
    assert entries > 50 * len(recording.entries)
    chromium.press("j", "b")
    assert chromium.ask(INK) > entries
    assert chromium.ask("location.hash") == "#at=1"


def test_a_click_goes_to_an_entry_and_a_row_to_its_entry(chromium: Browser, file: Path) -> None:
    chromium.open(file, "#at=20")
    chromium.ask("document.getElementById('entry-18').click()")
    assert place(chromium) == 18
    goes_to = chromium.ask("document.querySelector('#pane-request .goes').textContent")
    chromium.ask("document.querySelector('#pane-request .goes').click()")
    assert f"@{place(chromium)}" == goes_to


def test_the_tab_key_reaches_the_scrubber_the_timeline_and_each_pane(
    chromium: Browser, file: Path
) -> None:
    chromium.open(file)
    reached = set()
    for _ in range(60):
        chromium.press("Tab")
        reached.add(
            chromium.ask(
                "document.activeElement.id || document.activeElement.closest('.pane')?.id || ''"
            )
        )
    assert {"track", "timeline", *(f"pane-{name}" for name in FactView)} <= reached
