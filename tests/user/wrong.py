from simloop import Http, Limits, Reply, Scenario, ScriptedTool, run

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
