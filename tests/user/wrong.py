from simloop import (
    HookBenchmark,
    Http,
    Limits,
    Provider,
    Reply,
    Scenario,
    ScriptedTool,
    Sim,
    WireOptions,
    mcp_session,
    note,
    run,
    traced,
)

Http(status=429, retry_after=5)  # type: ignore[arg-type]
Reply(sya="Hello.")  # type: ignore[call-arg]
Scenario(prompt="Hi", expect=5)  # type: ignore[arg-type]
Scenario()  # type: ignore[call-arg]
ScriptedTool(takes=120)  # type: ignore[arg-type]
Limits(max_step=3)  # type: ignore[call-arg]
run({"prompt": "Hi"})  # type: ignore[arg-type]
run(Scenario(prompt="Hi"), model="hello")  # type: ignore[arg-type]
run(Scenario(prompt="Hi"), hooks=[print])  # type: ignore[arg-type]
run(Scenario(prompt="Hi"), sed=3)  # type: ignore[call-arg]


@traced
def weather(city: str) -> str:
    return city


@traced
async def search(query: str, *, limit: int = 3) -> int:
    weather(5)  # type: ignore[arg-type]
    weather("Oslo").append("rain")  # type: ignore[attr-defined]
    search(query, limti=3)  # type: ignore[call-arg, unused-coroutine]
    return limit


async def tests(provider: Provider, sim: Sim, hook_benchmark: HookBenchmark) -> None:
    found: str = await search("Oslo")  # type: ignore[assignment]
    sim.tool(search)(found, limit="5")  # type: ignore[arg-type, unused-coroutine]
    provider.script("Hello.")  # type: ignore[arg-type]
    provider.expect(outcome="completed")  # type: ignore[call-arg]
    provider.options = {"framing": "cr"}  # type: ignore[assignment]
    provider.expect(requests="2")  # type: ignore[arg-type]
    provider.bodies["1"]  # type: ignore[index]
    await provider.model.reply("Hi")  # type: ignore[arg-type]
    sim.now = 5  # type: ignore[misc]
    hook_benchmark(weather, hooks="3")  # type: ignore[arg-type]
    mcp_session("weather")  # type: ignore[arg-type]
    with mcp_session():  # type: ignore[attr-defined]
        note(5)  # type: ignore[arg-type]


traced(5)  # type: ignore[type-var]
WireOptions(framing="crfl")  # type: ignore[arg-type]
WireOptions(chat_eror="data")  # type: ignore[call-arg]
Scenario(prompt="Hi", wire="crlf")  # type: ignore[arg-type]
run(Scenario(prompt="Hi"), loop=5)  # type: ignore[arg-type]
run(Scenario(prompt="Hi"), loop=weather, keep_bodies="yes")  # type: ignore[arg-type]
