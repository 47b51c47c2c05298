"""What a provider keeps for a run: which item is which, and how items are listed."""

from typing import Any

import pytest

from simloop.wire.formats.storage import Storage, named
from simloop.wire.formats.wire_format import WrongRequest

ASKED = {"role": "user", "content": "Hi"}


def kept(storage: Storage, number: int, **body: Any) -> None:
    turn = storage.turn({"input": [ASKED], **body})
    storage.keep(turn, {"id": f"resp_{number}", "output": []})


def test_no_two_conversations_and_no_two_items_have_one_id() -> None:
    storage = Storage()
    assert [storage.begin([ASKED, ASKED]), storage.begin([])] == ["conv_1", "conv_2"]
    storage.add("conv_2", [ASKED])
    storage.add("conv_2", [ASKED])
    items = (*storage.conversation("conv_1"), *storage.conversation("conv_2"))
    assert [each["id"] for each in items] == ["item_0", "item_1", "item_2", "item_3"]


def test_an_item_is_listed_with_its_text_as_a_part() -> None:
    said = {"type": "output_text", "text": "Hello"}
    assert named({"role": "assistant", "content": "Hello"}, "item_1") == {
        "id": "item_1", "type": "message", "role": "assistant", "content": [said],
    }  # fmt: skip
    call = {"type": "function_call", "id": "fc_1", "name": "look"}
    assert named(call, "item_1") == call


def test_an_item_that_each_request_repeats_is_kept_once() -> None:
    storage = Storage()
    kept(storage, 1)
    kept(storage, 2, input=[{**ASKED}])
    assert storage.response("resp_1")[1][0] is storage.response("resp_2")[1][0]


THOUGHT = {"type": "reasoning", "id": "rs_1_0", "summary": []}
CALL = {"type": "function_call", "id": "fc_1_1", "call_id": "a", "name": "look", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "seen"}


def thinking(*, store: bool = False) -> Storage:
    storage = Storage()
    turn = storage.turn({"input": [ASKED], "store": store})
    storage.keep(turn, {"id": "resp_1", "output": [THOUGHT, CALL]})
    return storage


def test_a_call_is_sent_back_with_the_thought_before_it() -> None:
    with pytest.raises(WrongRequest) as refused:
        thinking().turn({"input": [ASKED, CALL, RESULT]})
    assert str(refused.value.message) == (
        "Item 'fc_1_1' of type 'function_call' was provided without its required 'reasoning' item: "
        "'rs_1_0'."
    )


def test_a_call_without_its_id_needs_no_thought_nor_one_that_goes_on_from_a_response() -> None:
    nameless = {key: value for key, value in CALL.items() if key != "id"}
    for given in ([ASKED, THOUGHT, CALL, RESULT], [ASKED, nameless, RESULT]):
        assert thinking().turn({"input": given}).given == (*given,)
    turn = thinking(store=True).turn({"input": [RESULT], "previous_response_id": "resp_1"})
    assert turn.before[-1] == CALL
