from simloop.fuzz.choices import RecordedChoices, SeededChoices
from simloop.fuzz.tools import tool_for
from simloop.scenario.schema import ScriptedTool


def _drawn(*on: str, number: int = 2_000) -> list[ScriptedTool]:
    choices = SeededChoices(1)
    return [tool_for(choices, "read", on) for _ in range(number)]


def test_the_benign_tool_returns_a_text_at_once() -> None:
    tool = tool_for(RecordedChoices([]), "read", ("tools", "slow tools"))
    assert tool == tool_for(SeededChoices(1), "read", ())
    assert (tool.returns, tool.takes, tool.timeout) == ("what read found", 0, None)


def test_any_two_properties_meet_in_one_tool() -> None:
    tools = _drawn("tools", "slow tools")
    assert any(tool.raises and tool.takes and tool.outlives_cancel for tool in tools)
    assert any(tool.terminate and tool.sequential and tool.returns is None for tool in tools)
    assert any(tool.takes and tool.details for tool in tools)


def test_a_tool_that_cancels_itself_may_wait_before() -> None:
    assert {bool(tool.takes) for tool in _drawn("tools") if tool.cancels} == {False, True}


def test_a_tool_that_hangs_has_a_timeout() -> None:
    assert all(tool.timeout is not None for tool in _drawn("tools") if tool.hangs)


def test_a_tool_without_features_is_quick() -> None:
    assert all(tool.takes == 0 and not tool.raises for tool in _drawn(number=50))
