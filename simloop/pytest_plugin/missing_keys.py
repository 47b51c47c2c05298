"""The advice for a module of tests that needs the key of a provider when it is imported.

Not here: the keys of runs (adapters/keys.py). The rule to keep: the plugin sets no key while tests
are collected, because tests that are skipped where there is no key would run.
"""

import os
from collections.abc import Iterator

import pytest


def advise(collector: pytest.Collector, report: pytest.CollectReport) -> None:
    """Add the advice to the report on a module of simloop's tests that lacks a key."""
    if report.failed and isinstance(collector, pytest.Module) and _uses_simloop(collector):
        from simloop.adapters.keys import KEY  # noqa: PLC0415 - see the docstring of the plugin

        for name in _missing(str(report.longrepr)):
            line = f'os.environ.setdefault("{name}", "{KEY}")'
            text = (
                f"{name} is not set when the tests are imported, only in their runs: "
                f"write {line} at the top of conftest.py"
            )
            report.sections.append(("simloop: a key that an import needs", text))


def _uses_simloop(module: pytest.Module) -> bool:
    source = module.path.read_text(encoding="utf-8", errors="replace")
    return "simloop" in source or bool(module.config.getini("simloop_auto"))


def _missing(failure: str) -> Iterator[str]:
    """Yield the keys that an exception names and the environment lacks."""
    from simloop.adapters.keys import KEYS  # noqa: PLC0415 - see the docstring of the plugin

    raised = "\n".join(line for line in failure.splitlines() if line.startswith("E "))
    return (name for name in KEYS if name in raised and name not in os.environ)
