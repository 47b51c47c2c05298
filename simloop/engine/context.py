"""The conversation as the model sees it, and its compaction.

The history is append-only, a request shares it by a view, and a compaction starts a new list: so
adding a message costs the same however long the history is. In a compaction a call and its results
go or stay together (bug B19), the newest user message stays, and one that gains nothing is none.
"""

from collections.abc import Container, Iterable, Sequence

from msgspec import Struct

from simloop import messages as values
from simloop.engine import model_calls, user_code
from simloop.kernel.policies import Compaction, TokenEstimator, message_tokens
from simloop.messages import AssistantMessage, FinishReason, Message, ToolMessage, UserMessage
from simloop.trace import entries, requests
from simloop.trace.recorder import Recorder
from simloop.world.model_port import ModelPort


class History:
    """The messages of a conversation; `tokens` is their estimated size."""

    def __init__(self, messages: Iterable[Message], estimate: TokenEstimator) -> None:
        self.estimate = estimate
        self.replace(messages)

    def replace(self, messages: Iterable[Message]) -> None:
        self.messages: list[Message] = []
        self.tokens = 0
        self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> None:
        estimate = self.estimate
        for message in messages:
            self.messages.append(message)
            self.tokens += message_tokens(message, estimate)

    def view(self, tail: tuple[Message, ...] = ()) -> Sequence[Message]:
        """Return a snapshot, with `tail` at its end, that later changes do not affect."""
        return requests.view(self.messages, tail=tail)


class Transcript:
    """The messages of one conversation, beside the history that requests carry.

    With `is_own` it has failed replies, which no request carries, and lacks the results that only
    complete a request, as in pi-agent-core. Else it is the history, and nothing is kept twice.
    """

    def __init__(self, history: History, *, is_own: bool) -> None:
        self._history = history
        self._own: list[Message] | None = list(history.messages) if is_own else None

    @property
    def messages(self) -> list[Message]:
        return self._history.messages if self._own is None else self._own

    def add(self, messages: Iterable[Message], made_up: Container[Message] = ()) -> None:
        """Add messages that later requests carry. Those `made_up` are for the requests alone."""
        self._history.extend(messages)
        if self._own is not None:
            self._own += [message for message in messages if message not in made_up]

    def add_failed(self, reply: AssistantMessage) -> None:
        """Add a reply that no request carries, if the transcript is a list of its own."""
        if self._own is not None:
            self._own.append(reply)


SUMMARY_SYSTEM_PROMPT = "Summarise a conversation between a user and an assistant that uses tools."
SUMMARY_REQUEST = UserMessage(
    "Summarise the conversation above: the user's goal, what was done and found, what is left to "
    "do. Write the summary only."
)


class Cut(Struct, frozen=True):
    """A plan to drop `removed`; a summary may take its place at index `at` of `kept`."""

    removed: tuple[Message, ...]
    kept: tuple[Message, ...]
    at: int

    def with_summary(self, text: str) -> tuple[Message, ...]:
        return (*self.kept[: self.at], values.SummaryMessage(text), *self.kept[self.at :])


def turns_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Split into turns: a message that is no tool result, with the results that follow it."""
    turns: list[list[Message]] = []
    for message in messages:
        if isinstance(message, ToolMessage) and turns:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def plan_cut(history: History, policy: Compaction, *, forced: bool, down_to: int | None) -> Cut:
    """Plan to remove the oldest removable turns until `down_to` tokens are left.

    Without `down_to` the plan removes all removable turns and earlier summaries, for a new summary.
    Otherwise an earlier summary stays, because its messages are gone already (bug B10).
    """
    turns, tokens = turns_of(history.messages), history.tokens
    users = [i for i, turn in enumerate(turns) if isinstance(turn[0], UserMessage)]
    newest_user = users[-1] if users else -1
    keep_turns = 1 if forced else policy.keep_turns
    going: set[int] = set()
    for index, turn in enumerate(turns[: max(0, len(turns) - keep_turns)]):
        if down_to is not None and tokens <= down_to:
            break
        lasting = down_to is not None and isinstance(turn[0], values.SummaryMessage)
        if index != newest_user and not lasting:
            going.add(index)
            tokens -= sum(message_tokens(message, history.estimate) for message in turn)
    removed = [m for i, turn in enumerate(turns) if i in going for m in turn]
    kept = [m for i, turn in enumerate(turns) if i not in going for m in turn]
    first = min(going, default=0)
    return Cut(tuple(removed), tuple(kept), sum(len(turn) for turn in turns[:first]))


class Compacted(Struct, frozen=True):
    """The result of a compaction, in estimated tokens."""

    tokens_before: int
    tokens_after: int

    @property
    def shrunk(self) -> bool:
        return self.tokens_after < self.tokens_before


class Compactor(Struct, eq=False):
    """Carries out the compaction policy for one run."""

    _policy: Compaction
    _history: History
    _model: ModelPort
    _model_calls: model_calls.ModelCalls
    reported: bool = False
    """Whether the trace of this run says that the context is over its trigger for good."""

    def over(self) -> bool:
        """Return whether the context is over its trigger, and more than summaries may be dropped.

        The first context of a run that is over its trigger, with nothing to drop, is reported: the
        run goes on, and a person should know why there is no compaction.
        """
        history, policy = self._history, self._policy
        most = policy.max_messages
        if history.tokens < policy.trigger if most is None else len(history.messages) <= most:
            return False
        removed = plan_cut(history, policy, forced=False, down_to=None).removed
        if any(not isinstance(message, values.SummaryMessage) for message in removed):
            return True
        if not self.reported:
            self.reported = True
            size, trigger = f"{history.tokens:,} tokens", policy.trigger
            if most is not None:
                size, trigger = f"{len(history.messages):,} messages", most
            turns = "turn stays" if policy.keep_turns == 1 else f"{policy.keep_turns} turns stay"
            why_not = f"but nothing may be dropped: the newest {turns}"
            told = f"the context has {size} (trigger {trigger:,}), {why_not}"
            self._model.recorder.record(entries.Notice, told)
        return False

    async def shorten(self, *, forced: bool) -> Compacted:
        """Shorten the history and record it.

        A summary that fails, is empty, is cut off or gains nothing gives way to dropping the oldest
        turns, so that a broken summary model does not end the run (bugs B4, B11, B14, B16).
        """
        history = self._history
        before, count = history.tokens, len(history.messages)
        strategy, detail = "", ""
        if self._policy.strategy == "summarise":
            detail = await self._summarise(forced=forced)
            strategy = "" if detail else "summarise"
        if not strategy and self._drop_oldest(forced=forced):
            strategy = "drop-oldest"
        return self._done(forced, strategy, before, count, detail)

    def _done(self, forced: bool, strategy: str, before: int, count: int, detail: str) -> Compacted:  # noqa: FBT001
        tokens, removed = self._history.tokens, count - len(self._history.messages)
        given = forced, strategy, before, tokens, removed, detail
        self._model.recorder.record(entries.Compaction, *given)
        return Compacted(before, tokens)

    async def restart(self, marker: str, otherwise: str) -> Compacted:
        """Put `marker`, a summary and the newest user message in the place of the whole context.

        The summary is of all before that message; if there is no earlier user message, it is of the
        whole context, and `otherwise` follows it. It need not be shorter. One that fails gives way
        to dropping the oldest turns.
        """
        history = self._history
        before, count = history.tokens, len(history.messages)
        said = ((at, one) for at, one in enumerate(history.messages) if type(one) is UserMessage)
        users = [at for at, one in said if one.text != marker]
        again = len(users) > 1
        head = history.messages[: users[-1]] if again else history.messages
        newest = history.messages[users[-1]] if again else UserMessage(otherwise)
        text, detail = await self._ask_for_summary(head)
        strategy = "drop-oldest" if detail else "summarise"
        if not detail:
            history.replace((UserMessage(marker), AssistantMessage(text), newest))
        elif self._drop_oldest(forced=True):
            history.extend((UserMessage(otherwise),))
        return self._done(True, strategy, before, count, detail)  # noqa: FBT003

    def _drop_oldest(self, *, forced: bool) -> bool:
        history = self._history
        target = self._policy.target
        if forced or self._policy.max_messages is not None:  # its size in tokens says nothing then
            target = min(target, history.tokens // 2)
        cut = plan_cut(history, self._policy, forced=forced, down_to=target)
        if cut.removed:
            history.replace(cut.kept)
        return bool(cut.removed)

    async def _summarise(self, *, forced: bool) -> str:
        history = self._history
        cut = plan_cut(history, self._policy, forced=forced, down_to=None)
        if not cut.removed:
            return "nothing may be removed"
        text, detail = await self._ask_for_summary(cut.removed)
        if detail:
            return detail
        shorter = History(cut.with_summary(text), history.estimate)
        if shorter.tokens >= history.tokens:
            return "the summary is no shorter than what it replaces"
        history.replace(shorter.messages)
        return ""

    async def _ask_for_summary(self, messages: Sequence[Message]) -> tuple[str, str]:
        conversation = History((*messages, SUMMARY_REQUEST), self._history.estimate)
        stream = self._model.stream(
            conversation.view(), system_prompt=SUMMARY_SYSTEM_PROMPT, purpose="summary",
            tokens=conversation.tokens,
        )  # fmt: skip
        reply = self._model_calls.begin(stream.request, quiet=True)
        await user_code.finished(self._model_calls.read(stream, reply))
        text = reply.text.strip()
        if reply.fault is not None:
            return "", f"the summary failed: {reply.fault.message}"
        if reply.finish not in (FinishReason.STOP, FinishReason.OTHER) or not text:
            return "", f"the summary is of no use: finish {reply.finish}, {len(text)} characters"
        return text, ""


class ScriptedContext(Struct):
    """Answers as a Compactor does, by a script: where the sizes of real texts are in the way."""

    _over: list[bool]
    _shrunk: list[bool]
    _history: History
    _recorder: Recorder
    _compactor: Compactor
    reported: bool = False  # a script has no size that could be reported

    def over(self) -> bool:
        return _next(self._over)

    async def shorten(self, *, forced: bool) -> Compacted:
        """Record a compaction that gained a token, or nothing; without a script, carry one out."""
        if not self._shrunk:
            return await self._compactor.shorten(forced=forced)
        shrunk, before = _next(self._shrunk), self._history.tokens
        after, strategy = before - shrunk, "scripted" if shrunk else ""
        self._recorder.record(entries.Compaction, forced, strategy, before, after)
        return Compacted(before, after)

    async def restart(self, marker: str, otherwise: str) -> Compacted:  # noqa: ARG002 - as Compactor
        """Record a forced compaction; `otherwise` is added if it gained something."""
        done = await self.shorten(forced=True)
        if done.shrunk:
            self._history.extend((UserMessage(otherwise),))
        return done


def _next(words: list[bool]) -> bool:
    return words.pop(0) if len(words) > 1 else words[0]
