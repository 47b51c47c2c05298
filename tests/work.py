"""Counts the work of a function, so that a test of growth needs no clock."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(function: Callable[[], object]) -> int:
    """The number of lines of Python that `function` runs; each turn of a comprehension counts."""
    lines = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        lines += event in {"line", "call"}
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return lines
