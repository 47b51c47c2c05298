"""The scenario: all inputs of one run, as people write them.

One sentence states the effect of each field, because an editor shows that sentence.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, PrivateAttr, field_serializer, model_validator

from simloop.errors import ScenarioError
from simloop.kernel.durations import UNITS_NS
from simloop.kernel.limits import MAX_TRANSITIONS, Limits
from simloop.kernel.policies import Compaction, HookExecution, HookIsolation, ToolExecution
from simloop.kernel.retry import ExponentialBackoff
from simloop.scenario import designs, fields, people
from simloop.scenario.conversation import PastMessage, unpaired
from simloop.scenario.expect import Expect
from simloop.scenario.fields import NO_TIME, Strict, differs, kept, no_items, wrong
from simloop.scenario.programs import Scripted, check_programs
from simloop.scenario.replies import Party, Reply
from simloop.scenario.services import Address, Route
from simloop.trace.kinds import TRIGGERS
from simloop.trace.recorder import MAX_TRACE_CHARS
from simloop.world import chance, wire_options
from simloop.world.faults import TOOL_ENDS
from simloop.world.files import Files
from simloop.world.tools import Tool, ToolServer, canonical_json, object_schema

HookPoint = Literal["before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call"]

TypeName = Literal[
    "string", "integer", "number", "boolean", "array", "object",
    "string?", "integer?", "number?", "boolean?", "array?", "object?",
]  # fmt: skip

if TYPE_CHECKING:
    Point: TypeAlias = str
else:  # the schema, and the message about another name, have the names of the table
    Point = Literal[TRIGGERS]


class Trigger(Strict):
    """The trigger of an event in a run: a time, or an entry of the trace.

    The key is `after` and not `on`, because YAML 1.1 tools read `on` as a boolean.
    """

    at: fields.WrittenDurationOrNone = kept(None)
    """Virtual time after the start of the first run."""
    after: Point | Literal["part"] | None = None
    """After the trace shows an entry of this kind; part is any part of the model's stream."""
    nth: int = Field(default=1, ge=1)
    """After the n-th such entry, not the first."""

    @model_validator(mode="after")
    def _one_trigger(self) -> Self:
        if (self.at is None) == (self.after is None):
            raise ValueError("give either at (a time) or after (a kind of entry)")
        return self


class Queued(Trigger):
    """A message that the user sends during the run."""

    say: str
    """The text of the message."""
    follow_up: bool = False
    """Keep the message until the run would otherwise end. Only pi has a queue for such messages:
    reference and opencode take them at once, react takes all after the run."""


class ToolAnswer(Strict):
    """The result of one call of a tool that has several."""

    returns: Any = ""
    """What the tool returns: text, or any value, sent as JSON."""
    raises: str | None = None
    """The tool raises an exception with this message."""
    takes: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time that the tool takes."""


class ScriptedTool(Strict):
    """A fake tool."""

    description: str = ""
    """The description of the tool for the model."""
    parameters: dict[str, TypeName] = Field(default_factory=dict)
    """The arguments and their types; a type that ends in ? may be left out."""
    json_schema: dict[str, Any] | None = None
    """The arguments as a JSON Schema, in the place of `parameters`."""
    returns: Any = ""
    """What the tool returns: text, or any value, sent as JSON."""
    raises: str | None = None
    """The tool raises an exception with this message."""
    returns_chars: Annotated[int, Field(ge=0, le=50_000_000)] | None = None
    """The tool returns a text of so many characters."""
    answers: fields.Many[ToolAnswer] = Field(default_factory=kept(no_items))
    """The results of its first calls, in order. A later call ends as the other keys say, or as your
    own function does."""
    details: Any = None
    """What the interface is shown of the result, as JSON."""
    terminate: bool = False
    """The result asks for the end of the run. A run of a pi version ends when every result of a
    reply asks for it; other loops do not look at this."""
    sequential: bool = False
    """A reply that calls this tool has its calls run one after the other, also where the loop runs
    calls in parallel."""
    takes: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time that the tool takes."""
    hangs: bool = False
    """The tool never returns."""
    cancels: bool = False
    """The tool raises CancelledError by itself."""
    outlives_cancel: fields.WrittenDuration = kept(NO_TIME)
    """When cancelled it goes on for so long, then returns all the same."""
    timeout: fields.WrittenDurationOrNone = kept(None)
    """Virtual time after which the call is given up."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.parameters and self.json_schema is not None:
            raise wrong("json_schema", "give either parameters or json_schema")
        given = [way for way in TOOL_ENDS if differs(self, way)]
        if len(given) > 1:
            raise wrong(given[1], f"a tool ends in one way, not in several: {', '.join(given)}")
        for field in ("returns", "details"):
            try:
                canonical_json(getattr(self, field))
            except (TypeError, ValueError):
                raise wrong(field, "this is not JSON: it has no NaN and no infinity") from None
        if self.timeout is not None and not (self.timeout and self.timeout % UNITS_NS["ms"] == 0):
            raise wrong("timeout", "must be a whole number of milliseconds, and at least 1ms")
        if self.json_schema is not None:
            try:
                Tool(lambda: None, name="tool", parameters=self.json_schema)
            except ScenarioError as error:
                message = f"this is not a JSON Schema{error.message.partition('JSON Schema')[2]}"
                raise wrong("json_schema", message) from error
        return self

    def schema_of_arguments(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments; the short form allows no others."""
        if self.json_schema is not None:
            return self.json_schema
        properties = {name: {"type": kind.rstrip("?")} for name, kind in self.parameters.items()}
        required = [name for name, kind in self.parameters.items() if not kind.endswith("?")]
        return object_schema(properties, required)


class ScriptedHook(Strict):
    """A fake hook, which waits, then fails or acts; `waits: after` makes it act first."""

    at: HookPoint
    """Where the hook runs."""
    name: str = ""
    """The name of the hook in traces."""
    tool: str | None = None
    """Act on calls of this tool only."""
    nth: Annotated[int, Field(ge=1)] | None = None
    """Act this time only, counted from 1."""
    command: str | None = None
    """The hook is this command, which `programs` plays: it reads JSON, as a hook of Claude Code."""
    takes: fields.WrittenDuration = kept(NO_TIME)
    """Virtual time that the hook takes."""
    hangs: bool = False
    """The hook never returns."""
    waits: Literal["before", "after"] = "before"
    """Whether it takes its time, or hangs, before it acts or after."""
    raises: str | None = None
    """The hook raises an exception with this message."""
    block: str | None = None
    """Forbid the call, for this reason."""
    system_prompt: str | None = None
    """Replace the system prompt for this call."""
    hide_tools: list[str] = Field(default_factory=no_items)
    """Withhold these tools."""
    add_tools: fields.Named[ScriptedTool] = kept({})
    """Offer these fake tools for this call, in the place of tools of their names."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Set these arguments of the call."""
    result: str | None = None
    """Replace the text of the tool's result."""
    independent: bool = False
    """The hook may run at the same time as independent neighbours, where hook_execution says so; it
    may block, and a change that it makes is a failure."""

    @model_validator(mode="after")
    def _fits_its_point(self) -> Self:
        fits = {
            "block": self.at.startswith("before"), "system_prompt": self.at == "before_llm_call",
            "hide_tools": self.at == "before_llm_call", "add_tools": self.at == "before_llm_call",
            "arguments": self.at == "before_tool_call", "result": self.at == "after_tool_call",
            "tool": self.at.endswith("tool_call"),
        }  # fmt: skip
        for field, fitting in fits.items():
            if differs(self, field) and not fitting:
                raise wrong(field, f"`{field}` has no meaning at {self.at}")
        acts = [e for e in ("takes", "hangs", "raises", *fits) if e != "tool" and differs(self, e)]
        if self.command is not None and acts:
            raise wrong(acts[0], f"the command decides by itself: leave `{acts[0]}` out")
        if self.waits == "after":
            if self.raises is not None:
                raise wrong("waits", "a hook that raises does not wait afterwards: leave this out")
            if not (self.takes or self.hangs):
                raise wrong("waits", "this hook does not wait: add takes or hangs")
        return self


class McpServer(Strict):
    """The MCP server through which an agent with `simloop.mcp_session` has the scenario's tools."""

    lost_calls: list[Annotated[int, Field(ge=1)]] = Field(default_factory=no_items)
    """The tool calls, counted from 1, in which the connection is lost."""
    listed_after: dict[str, fields.WrittenDuration] = Field(default_factory=dict)
    """Tools that appear in the list so long after the first prompt. The client is told that the
    list has changed."""
    unlisted_after: dict[str, fields.WrittenDuration] = Field(default_factory=dict)
    """Tools that leave the list so long after the first prompt; calls of them fail."""

    def server(self, start_ns: int) -> ToolServer:
        own: Any = self  # the type of a duration is that for writing it
        listed = {name: start_ns + after for name, after in own.listed_after.items()}
        unlisted = {name: start_ns + after for name, after in own.unlisted_after.items()}
        return ToolServer(frozenset(self.lost_calls), listed, unlisted)


class Context(Strict):
    """Scripted results of measuring and compacting the context, used instead of its size.

    The last word of each list repeats for all later results. With `summaries` and without `shrunk`,
    a compaction is a real one, and only its moments are scripted.
    """

    over: list[bool] = Field(default_factory=no_items)
    """Whether it is over the trigger, each time it is asked."""
    shrunk: list[bool] = Field(default_factory=no_items)
    """Whether a compaction gains something, each time."""


class ClockSkew(Strict):
    """A clock of the loop that differs from the provider's, visible in dates of Retry-After."""

    ahead: fields.WrittenDuration = kept(NO_TIME)
    """It shows a later time."""
    behind: fields.WrittenDuration = kept(NO_TIME)
    """It shows an earlier time."""


class Declared(Strict):
    """The intention of an agent's author, by which the agent is judged."""

    limits: fields.OneOrNone[Limits] = kept(None)
    """The limits that the agent keeps by itself; those that are left out are not declared."""
    retry: fields.OneOrNone[ExponentialBackoff] = kept(None)
    """The retry policy of the agent."""
    tool_timeout: fields.WrittenDurationOrNone = kept(None)
    """The time after which the agent breaks a tool off; the attribute of a class is in seconds."""
    mutating: list[str] = Field(default_factory=no_items)
    """The tools, the services by the beginnings of their addresses, and the programs by those of
    their commands, that change the world: none does so twice for one call."""
    deviations: dict[str, str] = Field(default_factory=dict)
    """The invariants that the agent does not keep, each with the reason."""

    @field_serializer("limits", mode="wrap")
    def _with_usual_numbers(self, limits: Limits | None, write: Any) -> Any:
        declared = {} if limits is None else limits.declared._asdict()
        counts = {name: n for name, n in declared.items() if n < inf and not name.endswith("_ms")}
        return limits and write(limits) | counts


class Scenario(Strict):
    """One or more prompts, the model's replies, the tools and hooks, and the limits."""

    model_config = ConfigDict(defer_build=False)  # it has the other models in it: see `Strict`

    title: str = ""
    """What must hold, as a sentence."""
    about: str = ""
    """The world of the scenario in a line; the report of a failure shows it."""
    recorded: str = ""
    """The recording that the scenario was made of. An agent of your own is not refused then for
    settings of the bundled loops: it keeps its own prompt, history, limits, retries and context."""
    loop: str = "reference"
    """The loop design to run; module:attribute for a loop of your own, or a dollar, a blank and the
    command line of a Python program, such as `$ llm {prompt}`."""
    judge_as: str = ""
    """The bundled design whose expectations hold for `loop`, a loop of your own: in `expect` and
    `expect_on`, where nothing is said of the loop itself."""
    loops: fields.One[designs.LoopOptions] = fields.defaults_of(designs.LoopOptions)
    """The options of each loop design."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """The seed of everything random."""
    shuffle_ties: bool = False
    """Let timers of one instant fire in an order drawn from the seed."""
    limits: fields.One[Limits] = kept(Limits())
    """The bounds of the run."""
    system_prompt: str = ""
    """The system prompt."""
    history: fields.Many[PastMessage] = Field(default_factory=kept(no_items))
    """The conversation before the first prompt."""
    declares: fields.OneOrNone[Declared] = kept(None)
    """What an agent of your own is meant to do, besides the attributes that say so."""
    prompt: str
    """The text of the first message."""
    then: people.Prompts = Field(default_factory=kept(no_items))
    """Further prompts, each after the outcome before it: a text, or {after: 2h, say: Go on.,
    restart: true}."""
    input: people.Input = kept(None)
    """The standard input of the agent: the lines that the user types, as texts or as {after: 40m,
    say: y}, or the text of a redirected file; after it comes its end. Without it, a read of
    standard input is a real one."""
    tools: fields.Named[ScriptedTool] = Field(default_factory=kept(dict))
    """Fake tools by name."""
    files: dict[str, str] | None = None
    """Files in memory, by path, and with them five tools over them: RunShellCommand, ReadFile,
    ReadFolder, WriteFile, EditFile."""
    programs: Scripted = Field(default_factory=kept(dict))
    """The programs that the agent may start, by the words with which their command lines begin (*
    stands for any characters): the answer, or a list of answers in order; `sh: files` is a shell
    over `files`."""
    offline: list[str] = Field(default_factory=no_items)
    """Hosts that are meant not to answer, such as telemetry.example or *.example.com: reports do
    not list what is refused there."""
    absent: list[str] = Field(default_factory=no_items)
    """Programs that are meant not to be there, such as git: reports do not list that they are
    refused."""
    unscripted: Literal["refuse", "fail"] = "refuse"
    """A host or a program that the scenario does not have is refused, as on a machine without it;
    fail makes each such refusal a failure of the run."""
    mcp: fields.OneOrNone[McpServer] = kept(None)
    """The MCP server for agents that have their tools from one; machines have none."""
    services: fields.Written[
        dict[Address, fields.Lax[list[fields.Lax[Route]]]],
        Mapping[str, Sequence[Route | Mapping[str, Any]]],
    ] = Field(default_factory=kept(dict))
    """The answers to HTTP requests that are not for a model, by the address of their service:
    https://orders.example/api."""
    shell_timeout: fields.WrittenDuration = kept(fields.duration("30s"))
    """Virtual time after which RunShellCommand is given up."""
    model: fields.Many[Reply] = Field(default_factory=kept(no_items))
    """The replies of the model, in order or by rule."""
    models: fields.Named[Party] = Field(default_factory=kept(dict))
    """The replies to one agent of several, by a name for it: which requests are for it, and its
    replies. `model` answers the other requests."""
    summaries: fields.Many[Reply] = Field(default_factory=kept(no_items))
    """The replies of the model to requests for a summary."""
    hooks: fields.Many[ScriptedHook] = Field(default_factory=kept(no_items))
    """Fake hooks, in the order in which they run."""
    abort: fields.OneOrNone[Trigger] = kept(None)
    """The user stops the run."""
    queue: fields.Many[Queued] = Field(default_factory=kept(no_items))
    """Messages that the user sends during the run."""
    clock: fields.One[ClockSkew] = fields.defaults_of(ClockSkew)
    """A clock that is wrong."""
    faults: fields.OneOrNone[chance.ChanceFaults] = kept(None)
    """Faults that nobody planned, drawn from the seed."""
    wire: fields.One[wire_options.WireOptions] = kept(wire_options.WireOptions())
    """How the provider writes its replies over HTTP, for agents on SDKs; machines use no HTTP."""
    retry: fields.OneOrNone[ExponentialBackoff] = kept(None)
    """When and how model calls are retried; by default as the loop does. What it leaves out has the
    defaults below, and not the loop's."""
    compaction: fields.OneOrNone[Compaction] = kept(None)
    """When and how the context is shortened; by default as the loop does."""
    context: fields.OneOrNone[Context] = kept(None)
    """What measuring and compacting the context come to."""
    tool_execution: fields.OneOrNone[ToolExecution] = kept(None)
    """How tools are run; by default as the loop does."""
    hook_isolation: fields.OneOrNone[HookIsolation] = kept(None)
    """How far a hook can reach; by default as the loop does."""
    hook_execution: fields.OneOrNone[HookExecution] = kept(None)
    """How hooks are run; by default as the loop does."""
    warn_after: Annotated[int, Field(ge=1)] | None = None
    """Model calls after which each further one is reported, and none is stopped; by default as the
    loop does: pi after 50, the others never."""
    bugs: list[Annotated[str, Field(pattern=r"^[A-F]\d{1,2}$")]] = Field(default_factory=no_items)
    """Rows of BUGS.md, the list of real bugs, that it guards against."""
    max_transitions: Annotated[int, Field(ge=1, le=MAX_TRANSITIONS)] | None = None
    """Moves of the loop, or requests of your agent, for one prompt, after which it is a runaway; by
    default 100,000 moves, or 100 requests besides those for the replies of the script and those
    that the limits of your agent allow."""
    max_trace_chars: int = Field(default=MAX_TRACE_CHARS, ge=1, le=10 * MAX_TRACE_CHARS)
    """Characters of text in the trace after which the run is a runaway."""
    expect: fields.One[Expect] = fields.defaults_of(Expect)
    """What must hold at the end."""
    expect_on: fields.Named[Expect] = Field(default_factory=kept(dict))
    """The expectations for this loop, by name. A version, such as pi@0.87.1, has those of its
    design, unless it has its own."""

    @model_validator(mode="after")
    def _history_is_paired(self) -> Self:
        if (found := unpaired(self.history)) is not None:
            raise wrong(f"history.{found[0]}", found[1])
        return self

    @model_validator(mode="after")
    def _files_fit(self) -> Self:
        if self.shell_timeout < UNITS_NS["ms"]:
            raise wrong("shell_timeout", "a command needs at least 1ms")
        try:
            Files(self.files)
        except OSError as error:
            raise wrong("files", str(error)) from None
        check_programs(self.programs, has_files=self.files is not None)
        return self

    @model_validator(mode="after")
    def _parties_fit(self) -> Self:
        for name in {"", "min", "max"}.intersection(self.models):
            raise wrong(f"models.{name}", "give it another name: min, max and none mean something")
        expected = {"expect": self.expect}
        expected |= {f"expect_on.{name}": each for name, each in self.expect_on.items()}
        for key, each in expected.items():
            if unknown := each.unknown_party(self.models):
                raise wrong(f"{key}.{unknown[0]}", unknown[1])
        return self

    _path: str = PrivateAttr(default="")

    @property
    def path(self) -> str:
        """Return the path of the scenario's file, or an empty text."""
        # Each run asks several times, and pydantic looks for `_path` itself eight times as long.
        return str((self.__pydantic_private__ or {}).get("_path", ""))

    def triggers(self) -> dict[str, Trigger]:
        abort = {} if self.abort is None else {"abort": self.abort}
        return abort | {f"queue.{index}": queued for index, queued in enumerate(self.queue)}

    def expected_of(self, loop: str, judge_as: str = "") -> Expect:
        """Return the expectations for `loop`: its own, else its design's, else those for all loops.

        If the loop is judged as a design, that design's expectations must hold, unless the
        scenario has expectations for the loop itself.
        """
        if judge_as and loop not in self.expect_on:
            loop = judge_as
        design = loop.partition("@")[0]
        by_design = self.expect if loop == self.loop else self.expect_on.get(design, self.expect)
        return self.expect_on.get(loop, by_design)

    def __eq__(self, other: object) -> bool:
        """Return whether the content is equal; the path does not count."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # it holds lists

    def read_from(self, path: str) -> Self:
        """Store the path of the scenario's file, which messages name, and return the scenario."""
        self._path = path
        return self
