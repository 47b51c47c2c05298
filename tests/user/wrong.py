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

Http(status=429, retry_after=5)  # refused
Reply(sya="Hello.")  # refused
Scenario(prompt="Hi", expect=5)  # refused
Scenario()  # refused
ScriptedTool(takes=120)  # refused
Limits(max_step=3)  # refused
run({"prompt": "Hi"})  # refused
run(Scenario(prompt="Hi"), model="hello")  # refused
run(Scenario(prompt="Hi"), hooks=[print])  # refused
run(Scenario(prompt="Hi"), sed=3)  # refused


@traced
def weather(city: str) -> str:
    return city


@traced
async def search(query: str, *, limit: int = 3) -> int:
    weather(5)  # refused
    weather("Oslo").append("rain")  # refused
    search(query, limti=3)  # refused
    return limit


async def tests(provider: Provider, sim: Sim, hook_benchmark: HookBenchmark) -> None:
    found: str = await search("Oslo")  # refused
    sim.tool(search)(found, limit="5")  # refused
    provider.script("Hello.")  # refused
    provider.expect(outcome="completed")  # refused
    provider.options = {"framing": "cr"}  # refused
    provider.expect(requests="2")  # refused
    provider.bodies["1"]  # refused
    await provider.reply("Hi")  # refused
    sim.now = 5  # refused
    hook_benchmark(weather, hooks="3")  # refused
    mcp_session("weather")  # refused
    with mcp_session():  # refused
        note(5)  # refused


traced(5)  # refused
WireOptions(framing="crfl")  # refused
WireOptions(chat_eror="data")  # refused
Scenario(prompt="Hi", wire="crlf")  # refused
run(Scenario(prompt="Hi"), loop=5)  # refused
run(Scenario(prompt="Hi"), loop=weather, keep_bodies="yes")  # refused
