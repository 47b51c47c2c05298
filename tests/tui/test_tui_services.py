"""A run with services in the replayer: a lane of its own, its signs in the help, what is open."""

import subprocess

import pytest
from builders import recorded
from screens import Driven, drive
from services import asked, sent

from simloop import Program, Scenario, run
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop_tui.app import StepApp
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

ROUTES = [{"get": "/orders/{id}", "json": {"id": "{id}"}, "takes": "80ms"}]


def of_services() -> RecordedRun:
    return recorded(asked(ROUTES, sent("GET /orders/7"))[1].trace)


def test_a_request_to_a_service_is_open_until_its_reply() -> None:
    run = of_services()
    waits = [Position(run, place).waits_for for place in range(len(run.entries))]
    assert waits == [[], ["service #1 GET https://orders.example/api/orders/7"], [], []]


@pytest.mark.slow
def test_the_timeline_has_a_lane_of_services_if_the_run_has_some() -> None:
    async def act(driven: Driven) -> None:
        shown = "\n".join(driven.lines())
        assert ". . . . . ^ services" in shown
        assert "GET https://orders.example/api/orders/7" in shown
        await driven.press("question_mark", "end")
        await driven.settled()
        assert "v reply" in "\n".join(driven.lines())

    drive(StepApp(ReplayScreen(Session(of_services()))), act, (200, 50))


def test_a_program_is_open_until_it_ends() -> None:
    def agent(prompt: str) -> None:
        subprocess.call(["git", "log"])

    programs = {"git": Program(takes="1s")}
    run_of_programs = recorded(run(Scenario(prompt="Go.", programs=programs), loop=agent).trace)
    waits = [Position(run_of_programs, place).waits_for for place in range(4)]
    assert waits == [[], ["program #1 git log"], [], []]
