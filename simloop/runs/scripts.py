"""The scripts of one run, for every party of its world, and what a test adds to them meanwhile.

The header of the trace states each addition, so that the run can be repeated from its trace.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Raw
from msgspec.structs import replace

from simloop.errors import ScenarioError
from simloop.kernel.limits import USUAL_REQUESTS
from simloop.runs.plan import Plan, app_of, content_of
from simloop.scenario import programs, schema
from simloop.scenario.people import Line, typed_lines
from simloop.scenario.programs import script_of as program_script
from simloop.scenario.replies import Party, PartyCondition, Reply, entries_of, parts_of_fault
from simloop.scenario.services import Route, answer_of_fault, rules_of
from simloop.trace import codec, looptrace
from simloop.virtual.seeds import Seeds
from simloop.wire.endpoint import Endpoint
from simloop.world import files, model_port, program_scripts, wire_options
from simloop.world.chance import FaultSites, FaultyModel, faulty_tool
from simloop.world.fake_model import FakeModel
from simloop.world.services import Service, ServicesPort
from simloop.world.world import World

if TYPE_CHECKING:
    from simloop.world.keyboard import Keyboard
    from simloop.world.programs import Programs


class Scripts:
    """The parties that answer the agent of one run, by scripts that may grow during the run."""

    def __init__(self, plan: Plan, seeds: Seeds, trace: looptrace.LoopTrace) -> None:
        self.scenario: schema.Scenario = plan.scenario  # states all that was added so far
        self.model = self.disturbed = plan.model()  # the second one with faults of chance
        self.files = None if plan.scenario.files is None else files.Files(plan.scenario.files)
        self.tools = plan.tools(self.files)
        self.sites: FaultSites | None = None
        if plan.scenario.faults is not None:
            self.sites = sites = FaultSites(plan.scenario.faults, seeds)
            self.tools = {name: faulty_tool(tool, sites) for name, tool in self.tools.items()}
            self.disturbed = FaultyModel(self.model, sites, parts_of_fault)
        self.provider: Endpoint | None = None
        self._plan = plan
        self._trace = trace
        self._world: World | None = None
        self._services = plan.services()
        self._port: ServicesPort | None = None
        self._program_scripts = [program_script(*each) for each in plan.programs.items()]
        self._programs: Programs | None = None
        lines = self.scenario.input or ()
        self._lines = [] if isinstance(lines, str) else [*typed_lines(lines)]
        self._keyboard: Keyboard | None = None

    def answer_http(self, model: model_port.ModelPort) -> Endpoint | None:
        """Make the endpoint that answers requests over HTTP, if code of the run may send some."""
        is_agent = self._plan.loop.machine is None
        if is_agent:  # a machine uses the model port itself, and counts its moves
            model.most = self._most_requests()
        if is_agent or self._services:
            keeps = bool(self._plan.given.get("keep_bodies"))
            make = self._plan.given.get("endpoint", Endpoint)
            self.provider = make(model, self.scenario.wire, keep_bodies=keeps)
        return self.provider

    def open(self, world: World) -> None:
        """Let the services, the programs and the user of the scenario answer in `world`."""
        self._world = world
        for service in self._services:
            self._port_in(world).add(service)
        is_sealed = world.model.loop.answers is not None
        if (self._program_scripts or self._plan.has_commands) and is_sealed:
            self._open_programs(world)
        if self.scenario.input is not None and is_sealed:
            self._open_keyboard(world)

    async def aclose(self) -> None:
        if self._port is not None:
            await self._port.aclose()

    def _open_programs(self, world: World) -> None:
        # What a run without programs does not need is not loaded for it.
        from simloop.virtual.border.processes import run_with_processes  # noqa: PLC0415
        from simloop.world.programs import Programs  # noqa: PLC0415

        model = world.model
        given = self._program_scripts, model.recorder, model.raised, self.files, self.sites
        self._programs = Programs(*given, lambda f: programs.Program(**f.keys).answer(is_last=True))
        run_with_processes(model.loop, self._programs)

    def _open_keyboard(self, world: World) -> None:
        from simloop.world.keyboard import Keyboard  # noqa: PLC0415 - as above

        text = self.scenario.input if isinstance(self.scenario.input, str) else None
        is_program = self._plan.loop.program is not None
        given = self._lines, world.model.recorder, world.model.loop
        self._keyboard = Keyboard(*given, text=text, is_of_process=is_program)

    def _port_in(self, world: World) -> ServicesPort:
        if self._port is None:
            model = world.model
            given = model.recorder, model.loop, model.raised, model.cancellation
            self._port = ServicesPort(*given, sites=self.sites, play=answer_of_fault)
            if self.provider is not None:
                self.provider.services = self._port
        return self._port

    def _most_requests(self) -> float:
        # Those that replies answer, or that the agent's own limit ends, are no endless ones.
        if self.scenario.max_transitions is not None:
            return self.scenario.max_transitions
        limits = self._plan.loop.declared_limits
        steps = 0 if limits is None or limits.max_steps == inf else limits.max_steps
        replies = self.model.replies if isinstance(self.model, FakeModel) else 0
        return USUAL_REQUESTS + steps + replies

    def unused_replies(self) -> list[str]:
        return self.model.unused() if isinstance(self.model, FakeModel) else []

    def unused_answers(self) -> list[str]:
        places = [service.unused() for service in self._services]
        if self._programs is not None:  # code that a border seals may start programs
            places += [script.unused() for script in self._program_scripts]
        return [each for unused in places for each in unused]

    def unused_lines(self) -> Iterator[str]:
        return (line.place for line in self._lines if line.typed < (line.times or 1))

    def add(self, replies: Sequence[Reply]) -> None:
        known = self.scenario.model
        self._fake_model("model").add(entries_of(replies, "model", len(known)))
        self._state(model=[*known, *replies])

    def add_party(self, name: str, when: PartyCondition, replies: Sequence[Reply] = ()) -> None:
        known, model = self.scenario.models.get(name), self._fake_model("models")
        if known is None:
            known = Party(when=when)
            model.add_party(name, known.script(name))
        model.add(entries_of(replies, f"models.{name}.replies", len(known.replies)), name)
        party = Party(when=when, replies=[*known.replies, *replies])
        self._state(models={**self.scenario.models, name: party})

    def _fake_model(self, key: str) -> FakeModel:
        if not isinstance(self.model, FakeModel):
            raise ScenarioError("this run has no script: another model answers", key=key)
        return self.model

    def write_as(self, options: wire_options.WireOptions) -> None:
        if self.provider is not None:
            self.provider.options = options
        self._state(wire=options)

    def add_routes(self, address: str, routes: Sequence[Route]) -> Service:
        """Add answers to a service, during the run before the earlier ones, and return it."""
        known = self.scenario.services.get(address, [])
        service = next((each for each in self._services if each.address == address), None)
        if service is None:
            service = Service(address)
            self._add_service(service)
        if routes:
            rules = rules_of(address, routes, len(known))
            place = service.add(rules, in_front=self._world is not None)
            stated = [*known[:place], *routes, *known[place:]]
            self._state(services={**self.scenario.services, address: stated})
        return service

    def add_app(self, address: str, app: Callable[..., Any]) -> Service:
        service = app_of(app, address)()
        self._add_service(service)
        header = self._trace.header
        self._trace.header = replace(header, python=(*header.python, f"service {address}"))
        return service

    def _add_service(self, service: Service) -> None:
        self._services.append(service)
        if self._world is not None:
            self._port_in(self._world).add(service)

    def add_program(self, command: str, *answers: Any) -> program_scripts.ProgramScript:
        """Script a program, during the run too: see `RunOptions`. The script has its calls."""
        script = program_script(command, answers)
        self._program_scripts.insert(0, script)  # before an equal one that is there
        if self._world is not None and self._programs is None:
            self._open_programs(self._world)
        if all(isinstance(each, programs.Program) for each in answers):
            self._state(programs={**self.scenario.programs, command: [*answers]})
        return script

    def add_lines(self, lines: Sequence[str | Line]) -> None:
        known = self.scenario.input or ()
        if isinstance(known, str) or (self._keyboard is not None and self._keyboard.is_over):
            raise ScenarioError("standard input has come to its end", key="input")
        self._lines += typed_lines(lines, len(known))
        self._state(input=[*known, *lines])
        if self._keyboard is None and self._world is not None:
            self._open_keyboard(self._world)

    def _state(self, **added: Any) -> None:
        self.scenario = self.scenario.model_copy(update=added)
        if self._world is not None:
            self._world.model.most = self._most_requests()
        content = content_of(self.scenario)
        stated = {"scenario": Raw(content), "scenario_digest": codec.digest(content)}
        self._trace.header = replace(self._trace.header, **stated)
