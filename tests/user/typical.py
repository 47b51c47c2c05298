"""A file of a user's project, with the calls that people write."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import simloop
from simloop import (
    Answer,
    AssistantMessage,
    BeforeLLMCall,
    BeforeToolCall,
    Callbacks,
    Compaction,
    ErrorClass,
    Expect,
    ExponentialBackoff,
    Fault,
    Finish,
    FinishReason,
    HookIsolation,
    Hooks,
    Http,
    HttpRequest,
    Limits,
    MakeFakeModel,
    Pace,
    Part,
    Provider,
    Queued,
    Reply,
    Request,
    Result,
    Route,
    RunOptions,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    Sim,
    SimloopRun,
    TextDelta,
    Tool,
    ToolExecution,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Trigger,
    UserMessage,
    VirtualClock,
    arun,
    duration,
    load_scenario,
    note,
    read_trace,
    run,
    simulate,
    traced,
    write_trace,
)


def read_file(path: str) -> str:
    return Path(path).name


async def look(at: str = "here") -> ToolResult:
    await asyncio.sleep(1)
    return ToolResult(at)


def shout(given: BeforeLLMCall) -> None:
    given.system_prompt = "Answer loudly."
    if "delete" in given.tools:
        given.block("Not today.")


async def sandbox(given: BeforeToolCall) -> None:
    given.arguments["path"] = "/sandbox"


def answer(request: Request) -> str:
    return f"You said: {request.messages[-1].text}"


class Streaming:
    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        yield TextDelta(request.system_prompt)
        yield Finish(FinishReason.STOP)


class TwiceAtOnce:
    """A retry policy of one's own."""

    def classify(self, fault: Fault) -> ErrorClass:
        return ErrorClass.RATE_LIMIT if fault.status == 429 else ErrorClass.SERVER

    def retryable(self, error: ErrorClass) -> bool:
        return error is ErrorClass.RATE_LIMIT

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        return 0 if fault is None or failures < 2 else now_ns + int(draw)


def said(request: Request) -> list[str]:
    offered: list[ToolSpec] = list(request.tools)
    texts = [one.text for one in request.messages if isinstance(one, AssistantMessage)]
    asked = [one.text for one in request.messages if isinstance(one, UserMessage | ToolMessage)]
    return [*texts, *asked, *(tool.name for tool in offered)]


whole = Scenario(
    title="A rate limit costs one error and one backoff",
    loop="reference",
    seed=7,
    limits={"max_steps": 20, "max_wall_clock": "5m"},
    system_prompt="Be brief.",
    prompt="What does README.md say?",
    then=["And the date?"],
    tools={
        "read_file": ScriptedTool(parameters={"path": "string"}, returns="# Hello", takes="120ms"),
        "look": {"returns": "found", "takes": "1s"},
    },
    files={"README.md": "# Hello"},
    model=[
        Reply(http=Http(status=429, retry_after="5s")),
        Reply(say="Let me look.", call={"read_file": {"path": "README.md"}}),
        Reply(say="It says Hello.", pace=Pace(first_part="1s")),
        {"say": "Noon.", "usage": {"input": 3, "output": 4}},
    ],
    summaries=[Reply(say="All of it.")],
    hooks=[ScriptedHook(at="before_tool_call", block="Not now.", takes="1s")],
    abort=Trigger(at="10s"),
    queue=[Queued(after="finish", say="Wait."), Queued(at="1.5s", say="No.", follow_up=True)],
    retry=ExponentialBackoff(jitter=0.5),
    compaction=Compaction(window=1_000, strategy="drop-oldest"),
    tool_execution=ToolExecution(order="parallel"),
    hook_isolation=HookIsolation(on_failure="fail-run"),
    expect=Expect(
        outcome="completed",
        text={"contains": "Hello"},
        elapsed={"max": "15s"},
        requests={"min": 2, "max": 4},
        counters={"error_count": 1},
        sent=["user", ...],
        calls=[{"read_file": {"path": "README.md"}}, ...],
        backoffs=["5s"],
    ),
    expect_on={"pi": Expect(outcome="failed", unused=3), "react": {"outcome": "failed"}},
)
small = Scenario(
    prompt="Hi",
    limits=Limits(max_steps=3, max_wall_clock_ms=300_000),
    expect={"outcome": "completed"},
)
waiting = Reply(http=Http(status=429, retry_after=duration("5s")))


def played() -> Result:
    options: RunOptions = {"seed": 3, "loop": "pi", "model": Streaming()}
    tools = {"read": read_file, "look": look}
    run(small, **options)
    run(small, model=lambda request: request.system_prompt, tools=tools)
    run(small, retry=TwiceAtOnce())
    said(run(small).requests[0])
    run(small, model=answer, callbacks=Callbacks(on_text=print), estimate_tokens=len)
    result = run(
        small,
        tools=[read_file, look, Tool(read_file, name="other", parameters={"type": "object"})],
        hooks=Hooks(before_llm_call=[shout], before_tool_call=[sandbox]),
        model=answer,
    )
    assert result.outcome == "completed"
    assert result.elapsed_s == 2.0
    assert result.counters is not None
    assert result.counters.error_count == 1
    first: Request = result.requests[0]
    assert first.messages[-1].text == "Hi"
    write_trace(result.trace, "a.trace.jsonl")
    assert read_trace("a.trace.jsonl").outcomes == result.outcomes
    return result.expect(outcome="completed", elapsed={"max": "15s"}, sent=["user", ...]).check()


async def main() -> str:
    result = await arun(small, model=answer)
    return result.text


def test_a_rate_limit(simloop_run: SimloopRun, fake_model: MakeFakeModel) -> None:
    result = simloop_run(small, model=fake_model(Reply(say="Hello.")), seed=4)
    result.expect(outcome="completed", backoffs=["2s"])
    assert simloop_run("a.simloop.yaml", check=False).text == "Hello."
    assert simloop_run(load_scenario("b.simloop.yaml"), loop="react").ok


def test_virtual_time(virtual_clock: VirtualClock) -> None:
    text: str = virtual_clock(main())
    assert text == simulate(main(), seed=7)
    assert simloop.__version__


@traced
async def fetch(url: str, *, retries: int = 2) -> bytes:
    note(f"fetches {url}")
    return url.encode() * retries


def shop(request: HttpRequest) -> Answer:
    return Answer(json={"path": request.path}, takes="80ms", headers={"x-mode": request.method})


async def test_services(provider: Provider, sim: Sim) -> None:
    orders = sim.service("https://orders.example/api")
    orders.get("/orders/{id}", json={"state": "shipped"}, takes="80ms", times=2)
    orders.post("/tickets", status=503, when={"body": {"kind": "refund"}})
    sim.service("https://shop.example", shop)
    provider.expect(services=["GET /orders/7", ..., {"POST /tickets": {"kind": "refund"}}])
    texts: list[str] = [each.text for each in orders.requests]
    scenario = Scenario(
        prompt="x",
        services={
            "https://a.example": [Route(get="/", pieces=["a"], lost="mid-output")],
            "https://b.example": [{"any": "/...", "status": 404}],
        },
    )
    assert texts == [run(scenario, services={"https://shop.example": shop}).text]


async def test_in_the_simulation(provider: Provider, sim: Sim) -> None:
    provider.script(Reply(http=Http(status=429, retry_after="7s")), Reply(say="Hello."))
    page: bytes = await sim.tool(fetch)("a", retries=3)
    message: AssistantMessage = (await provider.model.reply([UserMessage("Hi")])).message
    provider.expect(requests=2, elapsed={"max": "15s"})
    assert (page, message.text, sim.now, sim.seed) == (b"aaa", "Hello.", 7.0, 0)
