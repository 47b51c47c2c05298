"""The words by which each version of opencode knows that a context is too long.

The phrases were read in the published programs: packages opencode-linux-x64 1.1.11, 1.2.27 and
1.18.33. Not here: the status 413 and the code of an error (opencode_retry.py), and the phrases by
which every other loop knows an overflow (kernel/errorclass.py). The rule to keep: a version has its
own faults here too, such as "exceeds the limit of 5 requests" for an overflow.
"""

import functools
import re

from simloop.kernel.checked import Word
from simloop.kernel.errorclass import says_overflow


class OverflowWords(Word):
    """The phrases in the message of an HTTP error that make it an overflow."""

    ALL = "all"  # those of every provider that simloop knows
    OF_1_2_27 = "1.2.27"
    OF_1_18_33 = "1.18.33"

    def are_in(self, message: str) -> bool:
        """Return whether the message has one of these phrases."""
        if self is OverflowWords.ALL:
            return says_overflow(message)
        if self is OverflowWords.OF_1_18_33 and _any_of(*_THROTTLES).search(message):
            return False
        return _any_of(*_PHRASES[self]).search(message) is not None


@functools.cache  # compiled when a message is first searched, and not at each start
def _any_of(*phrases: str) -> re.Pattern[str]:
    # In a JavaScript pattern without the flag u, \d, \s and the case of letters are those of ASCII
    # (but for a few kinds of space), so "\N{KELVIN SIGN}" is no k.
    return re.compile("|".join(phrases), re.IGNORECASE | re.ASCII)


_FIRST = (
    r"^4(?:00|13)\s*(?:status code)?\s*\(no body\)",
    r"prompt is too long",
    r"input is too long for requested model",
    r"exceeds the context window",
    r"input token count.*exceeds the maximum",
    r"maximum prompt length is \d+",
    r"reduce the length of the messages",
    r"maximum context length is \d+ tokens",
    r"exceeds the limit of \d+",
    r"exceeds the available context size",
    r"greater than the context length",
    r"context window exceeds limit",
    r"exceeded model token limit",
    r"context[_ ]length[_ ]exceeded",
    r"request entity too large",
)
_SINCE_1_18_33 = (
    r"request_too_large",
    r"model_context_window_exceeded",
    r"too many tokens",
    r"token limit exceeded",
    r"tokens in request more than max tokens allowed",
    r"exceeds (?:the )?(?:model'?s )?maximum context length of [\d,]+ tokens?",
    r"exceeds (?:the )?(?:model'?s )?maximum context length\s*\([\d,]+\)",
    r"exceeds (?:the )?maximum allowed input length of [\d,]+ tokens?",
    r"input \(\d+ tokens\) is longer than the model'?s context length \(\d+ tokens\)",
    r"input length.*exceeds.*context length",
    r"context length is only \d+ tokens",
    r"prompt too long; exceeded (?:max )?context length",
    r"too large for model with \d+ maximum context length",
    r"prompt has [\d,]+ tokens?, but the configured context size is [\d,]+ tokens?",
)
_PHRASES = {
    OverflowWords.OF_1_2_27: _FIRST,
    OverflowWords.OF_1_18_33: (*_FIRST, *_SINCE_1_18_33),
}
# Only 1.18.33 tells a rate limit from an overflow.
_THROTTLES = (r"^(?:throttling error|service unavailable):", r"rate limit", r"too many requests")
