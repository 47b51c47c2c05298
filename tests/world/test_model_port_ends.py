"""The end of a stream at the port to the model: closed, given up, failed or stopped."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pacing import nap
from test_model_port import ASK, PARTS, STOP, iterated, kind
from worlds import Opened, in_world

from simloop.messages import (
    Part,
    Request,
    TextDelta,
)
from simloop.world.model_port import RecordedStream


def closing(log: list[str], *parts: Part) -> Any:
    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            for part in parts:
                yield part
        finally:
            await nap(3)
            log.append("cleaned up")

    return model


def test_a_reply_that_is_read_to_its_end_is_closed_before_the_agent_goes_on() -> None:
    log: list[str] = []

    async def main(opened: Opened) -> None:
        async for _ in opened.world.model.stream(ASK):
            pass
        log.append("goes on")

    in_world(main, closing(log, TextDelta("a"), STOP, STOP))
    assert log == ["cleaned up", "goes on"]


def test_the_native_client_closes_a_reply_before_it_returns() -> None:
    log: list[str] = []

    async def main(opened: Opened) -> None:
        await opened.world.model.reply(ASK)
        log.append("goes on")

    in_world(main, closing(log, TextDelta("a"), STOP, STOP))
    assert log == ["cleaned up", "goes on"]


def test_a_reply_that_is_given_up_records_nothing_more() -> None:
    async def main(opened: Opened) -> tuple[list[Part], list[str]]:
        stream = opened.world.model.stream(ASK)
        await anext(stream)
        await stream.aclose()
        return [part async for part in stream], [kind(entry) for entry in opened.entries]

    assert in_world(main, lambda _: PARTS) == ([], ["request", "reasoning-delta"])


def test_an_exception_of_the_clean_up_is_kept_and_ends_nothing() -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            yield TextDelta("a")
            yield STOP
            yield STOP
        finally:
            raise ValueError("cannot clean up")

    parts, opened = iterated(model)
    assert parts == [TextDelta("a"), STOP]
    assert [each.where for each in opened.raised] == ["the model"]


def read_until_stopped(keeps_finish: bool) -> list[str]:  # noqa: FBT001
    async def main(opened: Opened) -> list[str]:
        stream: RecordedStream = opened.world.model.stream(ASK)
        stream.keeps_finish = keeps_finish
        assert stream.take() == TextDelta("a")
        opened.world.user.cancellation.polls = True  # so nothing is cancelled
        opened.world.user.stop()
        with pytest.raises(asyncio.CancelledError):
            stream.take()
        return [kind(entry) for entry in opened.entries]

    return in_world(main, lambda _: (TextDelta("a"), TextDelta("b"), STOP))


def test_a_part_that_arrives_when_the_run_is_to_end_is_not_recorded() -> None:
    assert read_until_stopped(keeps_finish=False) == ["request", "text-delta", "stop-requested"]


def test_a_finish_that_is_kept_is_recorded_also_when_the_run_is_to_end() -> None:
    async def main(opened: Opened) -> Part | None:
        stream = opened.world.model.stream(ASK)
        stream.keeps_finish = True
        opened.world.user.cancellation.polls = True
        opened.world.user.stop()
        return stream.take()

    assert in_world(main, lambda _: (STOP,)) == STOP
