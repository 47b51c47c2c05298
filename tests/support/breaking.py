"""Breaks: changes of a correct loop in memory, which monkeypatch takes back."""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

Break = Callable[[pytest.MonkeyPatch], None]


def swap(owner: Any, name: str, value: Any) -> Break:
    """Replace a table or a method by another value."""
    return lambda patch: patch.setattr(owner, name, value)


def edit(owner: Any, name: str, *changes: str) -> Break:
    """Replace texts that occur once in the source of a function: old, new, old, new ..."""
    return lambda patch: patch.setattr(owner, name, edited(getattr(owner, name), *changes))


def edited(function: Any, *changes: str) -> Any:
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in batched(changes):
        assert source.count(old) == 1, f"`{old}` stands {source.count(old)} times in:\n{source}"
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    exec(source, function.__globals__, made)
    return made[function.__name__]


def batched(changes: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(changes[::2], changes[1::2], strict=True)
