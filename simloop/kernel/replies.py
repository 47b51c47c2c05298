"""The rules by which a program reads the replies of its provider, as data.

Not here: the reading itself (engine/model_calls.py) and the use of a reply (the loop). The rule to
keep: the defaults read every provider's words and keep nothing of a failed reply.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReading:
    """The rules for reading replies, and for keeping parts of a failed one."""

    finish_words: frozenset[str] | None = None
    """The finish words that the program knows, exactly as spelled; None for those of all
    providers in any case. Every other word is `other`."""
    failing_words: frozenset[str] = frozenset()
    """Finish words that make the call a failed one. Its text is whole, and so it is kept."""
    lower_case_names: bool = False
    """Whether a tool that is not offered is also found by its name in lower case."""
    keep_failed: bool = False
    """Whether the calls of a broken reply, with their results, stay in the context after a
    successful retry, under an assistant message without text."""
