import itertools
from email.utils import parsedate_to_datetime

from incases import in_cases

from simloop import Request, UserMessage
from simloop.fuzz.alphabet import (
    CONTENT_NAMES,
    CONTENTS,
    END_NAMES,
    ENDS,
    IDS,
    LAST,
    LAST_SUMMARY,
    PACES,
    STEPS,
    SUMMARIES,
    USAGES,
    Recipe,
    reply_of,
    summary_of,
)
from simloop.scenario.replies import Reply
from simloop.world.faults import BODIES, WAITS

HTTP = END_NAMES.index("http 429")


def test_the_benign_recipe_is_a_short_text_that_ends_well() -> None:
    assert reply_of(Recipe()) == Reply(say="Answer 0.")


@in_cases(range(len(ENDS)), END_NAMES.__getitem__)
def test_every_content_makes_a_reply_with_every_end(end: int) -> None:
    for content in range(len(CONTENTS)):
        reply = reply_of(Recipe(content, end, wait=1, body=1, pace=1, usage=2, steps=2))
        assert Reply.model_validate_json(reply.model_dump_json(exclude_defaults=True)) == reply
        parts = reply.play(1)
        assert parts or (CONTENT_NAMES[content], END_NAMES[end]) == ("nothing", "unfinished")


def test_every_failed_call_makes_a_reply_with_every_wait_and_body() -> None:
    for wait, body in itertools.product(range(len(WAITS)), range(len(BODIES))):
        assert reply_of(Recipe(end=HTTP, wait=wait, body=body)).http is not None


def test_a_failed_call_may_ask_for_a_wait_until_a_date_that_names_no_zone() -> None:
    asked = [wait.get("headers", {}).get("retry-after", "") for wait in WAITS]
    (date,) = (parsedate_to_datetime(each) for each in asked if each.endswith("-0000"))
    assert date.tzinfo is None


def test_every_pace_usage_and_number_of_steps_makes_a_reply() -> None:
    kinds = itertools.product(range(len(PACES)), range(len(USAGES)), range(len(STEPS)))
    replies = [reply_of(Recipe(pace=p, usage=u, steps=s)) for p, u, s in kinds]
    assert {reply.steps for reply in replies} == set(STEPS)


def test_every_content_with_calls_takes_every_kind_of_ids() -> None:
    for content, ids in itertools.product(range(len(CONTENTS)), range(1, len(IDS))):
        reply = reply_of(Recipe(content, ids=ids))
        assert bool(reply.ids) == bool(reply.call)
        assert Reply.model_validate_json(reply.model_dump_json(exclude_defaults=True)) == reply


def test_every_kind_of_summary_makes_a_reply() -> None:
    assert all(summary_of(kind, 1).play(1) for kind in range(len(SUMMARIES)))


def test_equal_recipes_share_a_reply() -> None:
    assert reply_of(Recipe(1, 2)) is reply_of(Recipe(1, 2))


def test_replies_of_different_numbers_differ() -> None:
    """But for those that stand for one thing that a provider sends."""
    fixed = {
        *("nothing", "blank", "repeated call", "half call", "missing argument"),
        *(f"{kind} arguments" for kind in ("malformed", "empty", "null", "list")),
    }
    equal = {
        name
        for place, name in enumerate(CONTENTS)
        if reply_of(Recipe(place, number=1)) == reply_of(Recipe(place, number=2))
    }
    assert equal == fixed


def test_the_last_replies_answer_every_request() -> None:
    request = Request(1, "main", "", [UserMessage("Go.")], ())
    for last in (LAST, LAST_SUMMARY):
        entry = last.entry("model.0")
        assert entry.times is None
        assert entry.matches is None or entry.matches(request)
