"""A format with the model in its path and binary frames is one file, and one name in `FORMATS`.

The toy is written as a new format would be: `/models/NAME:chat` answers with a whole reply, and
`/models/NAME:stream` in frames that begin with their length.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from wire import Heard, heard, in_run, posted

from simloop import Reply
from simloop.messages import Fault, Finish, UserMessage
from simloop.scenario.replies import Http, Pace
from simloop.wire import formats
from simloop.wire.formats.payload import JsonObject, body_of, text_at, wire_json
from simloop.wire.formats.replies import BlockChange, BlockEncoder, WireFormat
from simloop.wire.formats.wire_format import (
    Stamp,
    WireEvent,
    WireRequest,
    WrongRequest,
)
from simloop.world.http import Headers, HttpRequest

_PATH = re.compile(r"/models/([^/:]+):(chat|stream)$")


@dataclass(frozen=True, slots=True)
class Toy(WireFormat):
    name: ClassVar[str] = "toy"
    hosts: ClassVar[str] = r"toy\.test"
    path: ClassVar[str] = "/models/NAME:chat"

    def answers(self, request: HttpRequest) -> bool:
        return request.method == "POST" and _PATH.search(request.url) is not None

    def read(self, request: HttpRequest) -> WireRequest:
        found = _PATH.search(request.url)
        assert found is not None
        prompt = text_at(body_of(request), "prompt", "")
        if not prompt:
            raise WrongRequest("prompt", "there is none")
        return WireRequest(found[1], "", (UserMessage(prompt),), (), streams=found[2] == "stream")

    def framed(self, events: Sequence[WireEvent]) -> list[bytes]:
        """Write each event as four bytes with its length, and its data."""
        data = [one.data.encode() for one in events]
        return [len(one).to_bytes(4) + one for one in data]

    def encoder(self, request: WireRequest, stamp: Stamp) -> "ToyEncoder":
        return ToyEncoder(self, request, stamp)

    def headers(self, request: WireRequest, stamp: Stamp) -> Headers:
        del stamp
        return (("content-type", "application/x-toy" if request.streams else "application/json"),)

    def error_body(self, fault: Fault, number: int) -> JsonObject:
        del number
        return {"error": fault.message}


class ToyEncoder(BlockEncoder):
    def opened(self) -> Iterator[WireEvent]:
        return iter(())

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        if change.action == "grow":
            yield WireEvent("", wire_json({change.block.kind: change.piece}))

    def failed(self, fault: Fault) -> WireEvent:
        return WireEvent("", wire_json({"error": fault.message}))

    def ended(self, finish: Finish) -> Iterator[WireEvent]:
        yield WireEvent("", wire_json({"end": finish.reason}))

    def whole(self) -> bytes:
        return wire_json({"model": self.request.model, "text": self.text("text")}).encode()


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, Toy))


def toy(how: str = "chat", prompt: str = "Hi") -> HttpRequest:
    return posted({"prompt": prompt}, f"https://toy.test/models/toy-1:{how}")


def test_the_model_and_the_streaming_come_from_the_path() -> None:
    found = heard(Reply(say="Hello you"), request=toy())
    assert (found.status, json.loads(found.body)) == (200, {"model": "toy-1", "text": "Hello you"})


def test_a_stream_comes_in_frames_of_the_format_each_at_its_time() -> None:
    pace = Pace(first_part="250ms", per_part="100ms")
    found = heard(Reply(say="Hello you", pace=pace), request=toy("stream"))
    assert found.headers["content-type"] == "application/x-toy"
    assert [at for at, _ in found.pieces] == [0.25, 0.35, 0.45]
    assert [piece[4:] for _, piece in found.pieces] == [
        b'{"text":"Hello"}', b'{"text":" you"}', b'{"end":"stop"}',
    ]  # fmt: skip
    assert all(int.from_bytes(piece[:4]) == len(piece) - 4 for _, piece in found.pieces)


def test_a_failed_call_and_a_request_that_cannot_be_read_have_the_errors_of_the_format() -> None:
    busy = heard(Reply(http=Http(status=503)), request=toy())
    assert (busy.status, json.loads(busy.body)) == (503, {"error": "503 Service Unavailable"})
    assert heard(request=toy(prompt="")).status == 400


def test_the_request_is_recorded_as_one_of_any_format() -> None:
    async def main() -> None:
        await Heard().listen(toy())

    (request,) = in_run(main, Reply(say="Hello.")).requests
    assert request.messages == (UserMessage("Hi"),)
