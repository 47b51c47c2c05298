"""Framing: the bytes differ, the events do not."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wirereading import read_events

from simloop.wire.formats.replies import EventFramer
from simloop.wire.formats.wire_format import WireEvent
from simloop.world.wire_options import FramingName

NAMES: tuple[FramingName, ...] = get_args(FramingName)
EVENTS = [WireEvent("", "{}"), WireEvent("error", "[1]")]
BYTES = {
    "lf": "data: {}\n\nevent: error\ndata: [1]\n\n",
    "crlf": "data: {}\r\n\r\nevent: error\r\ndata: [1]\r\n\r\n",
    "cr": "data: {}\r\revent: error\rdata: [1]\r\r",
    "bytes": "data: {}\n\nevent: error\ndata: [1]\n\n",
    "crlf-bytes": "data: {}\r\n\r\nevent: error\r\ndata: [1]\r\n\r\n",
    "comments": ": keep-alive\n\ndata: {}\n\n: keep-alive\n\nevent: error\ndata: [1]\n\n",
    "no-space": "data:{}\n\nevent:error\ndata:[1]\n\n",
    "no-final-blank": "data: {}\n\nevent: error\ndata: [1]\n",
    "bom": "\ufeffdata: {}\n\nevent: error\ndata: [1]\n\n",
    "ids": "id: 1\nretry: 3000\ndata: {}\n\nevent: error\nid: 2\ndata: [1]\n\n",
}


def framed(name: FramingName, events: list[WireEvent]) -> list[bytes]:
    framer = EventFramer(name)
    pieces = [piece for event in events[:-1] for piece in framer.frame([event])]
    return [*pieces, *framer.frame(events[-1:], is_last=True)]


@pytest.mark.parametrize("name", NAMES)
def test_a_framing_has_these_bytes(name: FramingName) -> None:
    assert b"".join(framed(name, EVENTS)).decode() == BYTES[name]


@pytest.mark.parametrize("name", ["bytes", "crlf-bytes"])
def test_a_bytewise_framing_sends_each_byte_alone(name: FramingName) -> None:
    assert {len(piece) for piece in framed(name, [WireEvent("", "é")])} == {1}


@pytest.mark.parametrize("name", NAMES)
@given(
    events=st.lists(
        st.builds(
            WireEvent,
            st.sampled_from(["", "message_start", "error"]),
            st.text(
                st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1
            ).filter(lambda text: not text.startswith(" ")),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_framing_carries_the_same_events(name: FramingName, events: list[WireEvent]) -> None:
    assert read_events(b"".join(framed(name, events))) == events


def test_no_events_are_no_bytes() -> None:
    assert EventFramer("bom").frame([], is_last=True) == []
