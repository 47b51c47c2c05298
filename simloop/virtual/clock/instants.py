"""Instants and durations, in integer nanoseconds and in words."""

SECOND_NS = 1_000_000_000
EPOCH_NS = 1_767_225_600 * SECOND_NS
"""The start of every simulation: 2026-01-01T00:00:00Z, whatever the day it runs on."""
# From here on (146 years) a timer means "never": libraries write forever as inf or as centuries.
NEVER_NS = 2**62
NEVER_S = NEVER_NS / SECOND_NS
# Below this (24 days) sums of two doubles still round to the nanosecond that was meant; above it,
# `timeout(1)` and `sleep(1)` must still meet in one instant.
EXACT_S = 2.0**21


def clock_text(now_ns: int) -> str:
    """Return an instant in seconds, exactly: `1.5 s`."""
    seconds, rest = divmod(now_ns, SECOND_NS)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") + " s"
