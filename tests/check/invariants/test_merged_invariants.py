from recording import Recording, said

from simloop.check.invariants.requests import no_merged_replies
from simloop.messages import FinishReason, Message, UserMessage

GO, MORE = UserMessage("Go."), UserMessage("And?")


def test_the_text_of_a_reply_must_not_begin_with_that_of_an_earlier_one() -> None:
    run = Recording().prompt().request([GO]).replied("I look.")
    run.request([GO, said("I look."), MORE]).replied("Done.")
    piled: list[Message] = [GO, said("I look."), MORE, said("I look.Done."), MORE]
    assert run.request(piled).found(no_merged_replies) == [
        "request 3 has 'I look.Done.', and the model said 'Done.'"
    ]


def test_the_model_may_go_on_with_a_text_that_was_cut_off() -> None:
    run = Recording().prompt().request([GO]).text("I am ").finish(FinishReason.LENGTH)
    run.request([GO, said("I am "), UserMessage("Go on.")]).replied("done.")
    run.request([GO, said("I am done."), MORE])
    assert run.found(no_merged_replies) == []
