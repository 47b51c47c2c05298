"""A recording as a scenario: its replies as the script, its results as those of the tools.

Each conversation with an agent is a party of the script. What the recording does not hold stands in
the comment of the file, and is not invented.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import count, zip_longest
from typing import Any

import msgspec
from msgspec import Struct, field

from simloop.errors import ScenarioError
from simloop.kernel.durations import format_duration
from simloop.kernel.errorclass import classify
from simloop.kernel.limits import Limits
from simloop.kernel.retry import RETRYABLE
from simloop.messages import Request, StreamError, ToolSpec, UserMessage
from simloop.recordings import recording as records
from simloop.recordings.failures import ABORTED
from simloop.recordings.files import MS
from simloop.recordings.recording import ModelCall, Prompt, Recording
from simloop.recordings.secrets import without_secrets
from simloop.scenario.conversation import PastMessage, SentList, unpaired, written
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario, ScriptedTool


def scenario_of(recording: Recording, *, emails: bool = False) -> tuple[Scenario, str]:
    """Return the scenario of a recording, and the comment for its file.

    Secrets are removed and counted; `emails`: addresses too. Raises ScenarioError for a recording
    without a call of a model.
    """
    keys = without_secrets(_Maker(recording).keys(), recording.removed, emails=emails)
    try:
        return Scenario(**keys), comment_of(recording)
    except ScenarioError as wrong:  # an odd value that its reader let through
        wrong.path = recording.name
        raise


def comment_of(recording: Recording) -> str:
    """Return what the file of a scenario says of the recording that it is made of."""
    lines = [f"Imported from {recording.name} ({recording.format})."]
    if recording.lacks:
        lines.append(f"The recording does not hold: {', '.join(recording.lacks)}.")
    lines += [f"{told[0].upper()}{told[1:]}." for told in recording.counted()]
    return "\n".join(lines)


class _Agent(Struct):
    prompts: list[Prompt] = []
    waits_ns: list[int] = []  # before each prompt, after the end before it
    runs: list[list[ModelCall]] = field(default_factory=lambda: [[]])
    summaries: list[tuple[int, str]] = []  # each before the call with that number
    sent: SentList = field(default_factory=SentList)
    first: Request | None = None
    last: ModelCall | None = None

    @property
    def system(self) -> str:
        return "" if self.first is None else self.first.system_prompt

    @property
    def calls(self) -> list[ModelCall]:
        return [call for run in self.runs for call in run]


class _Maker:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._agents: defaultdict[str, _Agent] = defaultdict(_Agent)
        self._answers: dict[str, list[tuple[str, dict[str, Any]]]] = {}  # with their parties
        self._open: dict[str, dict[str, Any]] = {}  # the answers that wait, by the ids of calls
        self._specs: dict[str, dict[str, Any]] = {}
        self._services: dict[str, list[Mapping[str, Any]]] = {}
        takes: Mapping[type, Any] = {
            Prompt: self._prompt, ModelCall: self._call, records.ToolRun: self._result,
            records.Shortened: self._compacted, records.ServiceCall: self._service,
        }  # fmt: skip
        for record in recording.records:
            takes[type(record)](record)

    def _prompt(self, prompt: Prompt) -> None:
        agent = self._agents[prompt.party]
        last = agent.last
        if last and not prompt.begins and (last.message is None or last.message.calls):
            if not agent.prompts or prompt.text != agent.prompts[-1].text:  # it has not begun anew
                words = "a message of the user amid a run, which the agent may have made"
                self._recording.leave_out(words)
            return
        ended_ns = last.ended_ns if last is not None else None
        agent.waits_ns.append(prompt.at_ns - ended_ns if prompt.at_ns and ended_ns else 0)
        agent.prompts.append(prompt)
        if agent.runs[-1]:
            agent.runs.append([])

    def _call(self, call: ModelCall) -> None:
        agent = self._agents[call.party]
        run = agent.runs[-1]
        if call.request is None and run and run[-1].message is None and not _is_retried(run[-1]):
            run.pop()
            self._recording.leave_out("a failed attempt that a bundled loop would not repeat")
        run.append(call)
        agent.last = call
        if call.message is not None:
            for each in call.message.calls:
                answer = self._open[each.id] = {}
                self._answers.setdefault(each.name, []).append((call.party, answer))
                self._specs.setdefault(each.name, {"json_schema": {"type": "object"}})
        if (request := call.request) is not None:
            agent.sent.add(request)
            if records.NO_TOOLS in self._recording.lacks:
                agent.sent.items[-1].pop("tools", None)
            if agent.first is None or agent.first.tools != request.tools:
                self._know(request.tools)
            agent.first = agent.first or request

    def _know(self, tools: Sequence[ToolSpec]) -> None:
        for spec in tools:
            schema = msgspec.json.decode(spec.parameters)
            self._specs[spec.name] = {"description": spec.description, "json_schema": schema}

    def _result(self, run: records.ToolRun) -> None:
        if (answer := self._open.pop(run.call_id, None)) is None:
            self._recording.leave_out("a result of a call that is not there")
            return
        said = run.text.removeprefix("Error: ")
        answer |= {"raises": said} if run.is_error else {"returns": run.text}
        if run.took_ns and run.took_ns >= MS:
            answer["takes"] = _time(run.took_ns)

    def _compacted(self, record: records.Shortened) -> None:
        agent = self._agents[record.party]
        agent.sent.begin_anew()
        agent.summaries.append((sum(map(len, agent.runs)), record.summary))

    def _service(self, record: records.ServiceCall) -> None:
        self._services.setdefault(record.address, []).append(record.route)

    def keys(self) -> dict[str, Any]:
        """Return the keys of the scenario. Raises ScenarioError if nothing called a model."""
        agents = {name: each for name, each in self._agents.items() if each.last is not None}
        if not agents:
            asked = f"{sum(map(len, self._services.values()))} requests to services"
            found = "; ".join([asked, *self._recording.counted()])
            words = f"this recording has no call of a model, but {found}"
            raise ScenarioError(words, path=self._recording.name, hint=self._recording.hint)
        self._know(self._recording.tools)
        main = min(agents, key=bool)  # the one without a name, or the first
        agent, others = agents.pop(main), agents
        script, engine = _for_an_engine(agent, self._recording)
        prompts = [*agent.prompts, *_further(agent, others)]
        keys: dict[str, Any] = {
            "title": f"It goes as in {self._recording.name}.", "recorded": self._recording.name,
            "loop": self._recording.loop, **engine,
            "prompt": prompts[0].text if prompts else records.NO_PROMPT,
            "then": [_then(*each) for each in zip_longest(prompts[1:], agent.waits_ns[1:])],
            "system_prompt": agent.system or self._recording.system_prompt,
            "history": _history(agent.first), "tools": self._tools(main),
            "services": self._services, "model": [call.reply for call in script],
            "models": {name: _party(name, each) for name, each in others.items()},
            "expect": _expect(agent, others),
        }  # fmt: skip
        return {name: value for name, value in keys.items() if value or name == "prompt"}

    def _tools(self, main: str) -> dict[str, Any]:
        tools = {}
        for name, spec in self._specs.items():
            keys = {**spec, "answers": self._answers_of(name, main)}
            try:
                ScriptedTool(**keys)
            except ScenarioError:
                self._recording.leave_out(f"the schema of the tool {name}, which is no JSON Schema")
                keys["json_schema"] = {"type": "object"}
            tools[name] = {key: value for key, value in keys.items() if value}
        return tools

    def _answers_of(self, name: str, main: str) -> list[dict[str, Any]]:
        given = self._answers.get(name, [])
        # A session does not say how the calls of its agents mix: a bundled loop plays the main one.
        own = [answer for party, answer in given if party == main]
        if own and len(own) < len(given) and self._agents[main].first is None:
            words = f"a result of {name} for a sub-agent, because the main agent calls it too"
            self._recording.leave_out(words, len(given) - len(own))
            given = [(main, answer) for answer in own]
        if missing := sum(not answer for _, answer in given):
            words = f"the result of a call of {name}, which the recording does not have"
            self._recording.leave_out(words, missing)
        return [answer for _, answer in given]


def _further(main: _Agent, others: Mapping[str, _Agent]) -> list[Prompt]:
    """Return the first prompts of conversations that no other agent asked for."""
    asked = {
        text
        for agent in (main, *others.values())
        for each in agent.calls
        for call in each.reply.get("call", ())
        for given in call.values()
        if isinstance(given, dict)
        for text in given.values()
        if isinstance(text, str)
    }
    same = [each for each in others.values() if main.first and each.system == main.system]
    return [prompt for each in same for prompt in each.prompts if prompt.text not in asked]


def _party(name: str, agent: _Agent) -> dict[str, Any]:
    when: dict[str, Any] = {}
    if agent.prompts and agent.prompts[0].text != records.NO_PROMPT:
        when["conversation"] = agent.prompts[0].text
    elif agent.system:
        when["system"] = agent.system
    return {"when": when or {"conversation": name}, "replies": [call.reply for call in agent.calls]}


def _expect(agent: _Agent, others: Mapping[str, _Agent]) -> dict[str, Any]:
    expect: dict[str, Any] = {}
    for last in (run[-1] for run in agent.runs if run):
        is_useless = last.request is None and not (last.message and last.message.text)
        if last.message is None or "finish" in last.reply or is_useless:
            expect["outcomes"] = ["..."]  # a run that ends with this call need not complete
    spare = sum(len(each.calls) for each in others.values()) + len(agent.summaries)
    if spare and agent.first is None:  # an agent may have no sub-agents, or no summaries
        expect["unused"] = {"max": spare}
    if sent := {name: each.sent.items for name, each in others.items() if each.sent.items}:
        expect["sent"] = {"": agent.sent.items, **sent}
    elif agent.sent.items:
        expect["sent"] = agent.sent.items
    return expect


def _history(first: Request | None) -> list[dict[str, Any]]:
    """Return the messages of the first request before its last prompt, if a file can have them."""
    if first is None:
        return []
    said = [at for at, one in enumerate(first.messages) if isinstance(one, UserMessage)]
    before = [written(each) for each in first.messages[: said[-1] if said else 0]]
    return [] if unpaired([PastMessage(**each) for each in before]) else before


def _then(prompt: Prompt, wait_ns: int | None) -> Any:
    after = {"after": _time(wait_ns)} if wait_ns and wait_ns >= MS else {}
    return {**after, "say": prompt.text} if after else prompt.text


def _for_an_engine(agent: _Agent, recording: Recording) -> tuple[list[ModelCall], dict[str, Any]]:
    """Return the calls for a bundled loop, and its settings, so that its runs end as recorded."""
    if agent.first is not None:  # an agent of the user's has sent requests
        return agent.calls, {}
    runs = [run for run in agent.runs if run]
    failed = [sum(call.message is None for call in run) for run in runs]
    most = max(n + (run[-1].message is not None) for n, run in zip(failed, runs, strict=True))
    calls, over = list[ModelCall](), list[bool]()
    before, numbers = Counter(place for place, _ in agent.summaries), count()
    for n, run in zip(failed, runs, strict=True):
        calls += run
        for _ in run:
            over += [True] * before[next(numbers)] + [False]
        if n < most and _is_retried(run[-1]):
            words = "the end of a run by fewer failures: a reply fails there as `aborted`"
            recording.leave_out(words)
            calls.append(ModelCall(ABORTED))
            over.append(False)
    keys: dict[str, Any] = {"limits": _limits(agent, runs, most)}
    if not recording.loop.startswith("pi"):  # it has no compaction
        keys["context"] = {"over": over if True in over else [False]}
    if waits := [call.waited_ns for call in agent.calls if call.waited_ns]:
        keys["retry"] = {"initial_delay": _time(waits[0]), "max_delay": _time(max(waits))}
    if any(run[-1].message is not None and not run[-1].message.text for run in runs):
        keys["loops"] = {"reference": {"empty_reply_fails": False}}
    if True in over:
        keys["compaction"] = {"keep_turns": 1}
        keys["summaries"] = [{"say": text} for at, text in agent.summaries if at < len(agent.calls)]
    return calls, keys


def _limits(agent: _Agent, runs: list[list[ModelCall]], most: int) -> dict[str, Any]:
    took = [one.ended_ns - one.began_ns for one in agent.calls if one.ended_ns and one.began_ns]
    longest, compactions = max(took, default=0) // MS + 1000, len(agent.summaries)
    wanted = {"max_error_count": most, "max_steps": max(map(len, runs)) + 1,
              "max_compaction_attempts": compactions, "first_part_timeout_ms": longest,
              "model_call_timeout_ms": longest}  # fmt: skip
    needed = {name: n for name, n in wanted.items() if n > getattr(Limits(), name)}
    if any(_is_retried(run[-1]) for run in runs):
        needed["max_error_count"] = most
    if not compactions and any("finish" in run[-1].reply for run in runs):
        needed["max_compaction_attempts"] = 0  # a reply that was cut off ends its run
    return {name.removesuffix("_ms"): _time(n * MS) if name.endswith("_ms") else n
            for name, n in needed.items()}  # fmt: skip


def _is_retried(call: ModelCall) -> bool:
    if call.message is not None:
        return False
    part = Reply.model_validate(call.reply).play(1)[-1][1]
    return isinstance(part, StreamError) and classify(part.fault) in RETRYABLE


def _time(ns: int) -> str:
    return format_duration(ns // MS * MS)
