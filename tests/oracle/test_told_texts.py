"""The words that the user and the model are told are those of the hook, the provider, the tool."""

import pytest
from faultyruns import DONE, LOOK, Edit, changed, scenario, violated

from simloop import Scenario
from simloop.trace.entries import Ended, ToolResult

BLOCKS = [{"at": "before_llm_call", "block": "not today"}]

CASES = [
    ("message-names-cause", changed(Ended, message="Blocked."), scenario(hooks=BLOCKS)),
    ("message-names-cause", changed(Ended, message="Error: no."),
     scenario({"http": {"status": 401, "message": "no such key"}})),
    ("scripted-results", changed(ToolResult, text="Error: OSError"),
     scenario(LOOK, DONE, tools={"look": {"raises": "no such file"}})),
    ("scripted-results", changed(ToolResult, text="null"),
     scenario(LOOK, DONE, tools={"look": {"returns": None}})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_other_words_are_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)
