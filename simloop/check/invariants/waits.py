"""The wait before a retry that the provider and the declared policy require.

Not here: judging waits (retry.py, agents.py). The rule to keep: Retry-After is parsed here again,
so that a fault in the parser of kernel/retry.py is found and not repeated.
"""

from email.utils import mktime_tz, parsedate_tz
from math import inf

from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
from simloop.messages import Fault

NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_MOST_DRAW = 1 - 2**-53
_LONGEST = 1e15


def asked_ns(fault: Fault, now_ns: int) -> int | None:
    """Return the wait that the provider asks for at the Unix time `now_ns`, or None.

    Milliseconds take precedence over seconds, and seconds over a date. Zero or less is no wait.
    """
    for name, unit_ns in (("retry-after-ms", NS_PER_MS), ("retry-after", _NS_PER_S)):
        value = fault.header(name)
        try:
            number = float(value or "")
        except ValueError:
            continue
        wait = round(min(number, _LONGEST) * unit_ns) if 0 < number < inf else 0
        if wait:
            return wait
    date = parsedate_tz(fault.header("retry-after") or "")
    if date is None:
        return None
    try:
        wait = int(mktime_tz(date)) * _NS_PER_S - now_ns
    except (ValueError, OverflowError):
        return None
    return wait if wait > 0 else None


def wait_range(
    policy: RetryPolicy, failures: int, fault: Fault | None, now_ns: int
) -> tuple[int, int]:
    """Return the least and the greatest wait that the policy allows, in nanoseconds."""
    # Computed from its settings, because its own function may have the fault.
    if isinstance(policy, ExponentialBackoff):
        asked = None if fault is None else asked_ns(fault, now_ns)
        if asked is not None:
            wait = min(asked, policy.max_retry_after_ms * NS_PER_MS)
            return wait, wait
        doubled = policy.initial_delay_ms * 2 ** min(failures - 1, 64)
        wait = min(doubled, policy.max_delay_ms) * NS_PER_MS
        return int(wait * (1 - policy.jitter)), wait
    both = [
        policy.delay_ns(failures, fault, now_ns=now_ns, draw=draw) for draw in (0.0, _MOST_DRAW)
    ]
    return min(both), max(both)
