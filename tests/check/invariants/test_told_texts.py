"""The words that the user and the model are told are those of the hook, the provider, the tool."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

HANDLERS, PORT = "engine.handlers:EffectHandlers", "world.tools_port"
FAILS = {"look": {"raises": "no such file"}}
NOTHING = {"look": {"returns": None}}
BLOCKS = [{"at": "before_llm_call", "block": "not today"}]

CASES = [
    (
        "message-names-cause",
        part(f"{HANDLERS}._call_model", "self.cause = writable(given.blocked)", "pass"),
        scenario(hooks=BLOCKS),
    ),
    (
        "message-names-cause",
        part(
            f"{HANDLERS}._failed",
            "self.cause = fault, error, fault.message",
            "self.cause = fault, error, ''",
        ),
        scenario({"http": {"status": 401, "message": "no such key"}}),
    ),
    (
        "scripted-results",
        part(f"{PORT}:ToolsPort._failure", "message_of(error) or type", "type"),
        scenario(LOOK, DONE, tools=FAILS),
    ),
    (
        "scripted-results",
        part(f"{PORT}:text_of", '"" if value is None else', ""),
        scenario(LOOK, DONE, tools=NOTHING),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_other_words_are_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)
