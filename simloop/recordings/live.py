"""The recording of an agent that talks to its real provider once.

The agent runs in a simulation, as in every run. Its requests go out for real, each when it is made,
and the virtual clock advances by the time that the answer took.
"""

import shlex
import sys
from functools import partial
from typing import Any

import msgspec

from simloop.errors import ScenarioError
from simloop.recordings import network
from simloop.recordings.exchanges import HttpExchange, add_exchanges
from simloop.recordings.files import MS
from simloop.recordings.network import RealAnswer
from simloop.recordings.recording import Recording
from simloop.recordings.scenarios import scenario_of
from simloop.runs.command_hooks import run_real_command
from simloop.runs.options import RunOptions
from simloop.runs.run import Simulation
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import content
from simloop.virtual.progress import runaway
from simloop.wire.clients.interception import interception
from simloop.wire.endpoint import Endpoint
from simloop.wire.formats.lookups import lookup_of
from simloop.world.faults import FaultPlace
from simloop.world.http import HttpReply, HttpRequest, ReplyCourse
from simloop.world.services import ScriptedCourse, Service, TimedAnswer

MOST_REQUESTS = 200
"""The real requests after which the run is a runaway: each may cost money."""
_RECORDED = ("model", "models", "tools", "services", "expect")
_Told = tuple[HttpRequest, RealAnswer]
_NOT_KEPT = ("content-length", "transfer-encoding", "content-encoding", "connection")


def record_live(
    scenario: Scenario, name: str, given: RunOptions, *, services: bool
) -> tuple[Scenario, str, Recording]:
    """Run the agent of `given` on the prompts of a scenario, and return what was recorded.

    That is the scenario with the replies, the results and the requests, the comment for its file,
    and the recording. With `services`, requests for no model go out too. Raises what a run raises.
    """
    if scenario.model or scenario.models:
        hint = "name a scenario with no more than its prompt, and what the agent needs"
        raise ScenarioError("it has a script of the model already", key="model", hint=hint)
    exchanges: list[_Told] = []
    options: RunOptions = {**given, "endpoint": partial(_LiveEndpoint, exchanges, services)}
    interception.hides_addresses = False
    try:
        with interception:
            Simulation(scenario, **options).run_unchecked()
    finally:
        interception.hides_addresses = True
    recording = Recording(name, "a live recording", lacks=("the tools' own times",))
    add_exchanges(recording, exchanges, _exchange)
    recorded, comment = scenario_of(recording)
    found = {key: each for key, each in content(recorded).items() if key in _RECORDED}
    loop = given.get("loop")
    named = {"loop": loop} if isinstance(loop, str) else {}
    return Scenario.model_validate({**content(scenario), **named, **found}), comment, recording


class _LiveEndpoint(Endpoint):
    def __init__(self, exchanges: list[_Told], services: bool, *port: Any, **options: Any) -> None:  # noqa: FBT001 - see `record_live`
        super().__init__(*port, **options)
        self._exchanges, self._all = exchanges, services

    def knows(self, method: str, url: str) -> bool:
        return super().knows(method, url) or self._is_live(HttpRequest(method, url, (), b""))

    def _is_live(self, request: HttpRequest) -> bool:
        if self._found(request) is not None:  # the scenario has it
            return False
        is_for_model = any(form.answers(request) for form in self._formats())
        return self._all or is_for_model or lookup_of(request) is not None

    def _open(
        self, request: HttpRequest, found: tuple[Service, str] | None
    ) -> ReplyCourse | HttpReply:
        if not self._is_live(request):
            return super()._open(request, found)
        if len(self._exchanges) >= MOST_REQUESTS:
            raise self.port.recorder.keep(runaway(f"the run passed {MOST_REQUESTS} real requests"))
        asked = request.method, request.url, request.headers, request.body
        command = f"{shlex.quote(sys.executable)} -m {network.__name__}"
        done, _ = run_real_command(command, msgspec.msgpack.encode(asked))
        told = msgspec.msgpack.decode(done.stdout, type=RealAnswer)
        self._exchanges.append((request, told))
        return ScriptedCourse(_answer(told), request)


def _exchange(given: _Told) -> HttpExchange:
    request, told = given
    last_ns = told.pieces[-1][0] if told.pieces else told.head_ns
    body = b"".join(piece for _, piece in told.pieces)
    wait_ns, took_ns = (ns // MS * MS for ns in (told.head_ns, last_ns))
    return HttpExchange(request, told.status, tuple(told.headers), body, None, wait_ns, took_ns)


def _answer(told: RealAnswer) -> TimedAnswer:
    if told.error and not told.status:
        return TimedAnswer(lost="before-headers")
    headers = tuple(each for each in told.headers if each[0] not in _NOT_KEPT)
    pieces = tuple(piece for _, piece in told.pieces)
    between_ns = (told.pieces[-1][0] - told.head_ns) // len(pieces) if pieces else 0
    lost: FaultPlace | None = "mid-output" if told.error else None
    return TimedAnswer(told.status, headers, pieces, told.head_ns, between_ns, lost)
