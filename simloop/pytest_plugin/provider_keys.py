"""The keys of providers in tests: dummies for simulated tests, and for imports that need one.

Other tests and imports get none: tests that are skipped where there is no key would run.
"""

import contextlib
import os
from collections.abc import Callable

import pytest

from simloop.pytest_plugin.async_tests import is_ours
from simloop.pytest_plugin.reports import ScenarioItem
from simloop.pytest_plugin.settings import USERS


def keys_for(item: pytest.Item) -> contextlib.AbstractContextManager[None]:
    """Return a context with dummy keys for a test that is simulated, with its fixtures."""
    return _dummies() if _is_simulated(item) else contextlib.nullcontext()


def _dummies() -> contextlib.AbstractContextManager[None]:
    from simloop.wire.api_keys import dummy_keys  # noqa: PLC0415 - see the docstring of the plugin

    return dummy_keys()


def _is_simulated(item: pytest.Item) -> bool:
    if isinstance(item, ScenarioItem) or is_ours(item):
        return True
    if not isinstance(item, pytest.Function):
        return False
    return bool(item.get_closest_marker("simloop")) or not USERS.isdisjoint(item.fixturenames)


def collected(
    collector: pytest.Collector,
    report: pytest.CollectReport,
    again: Callable[[], pytest.CollectReport],
) -> pytest.CollectReport:
    """Return the report, or that of a repeated import of a module whose import needs a key."""
    if report.failed and isinstance(collector, pytest.Module) and _needs_key(collector, report):
        with _dummies():
            return again()
    return report


def _needs_key(collector: pytest.Module, report: pytest.CollectReport) -> bool:
    from simloop.wire.api_keys import KEYS  # noqa: PLC0415 - see the docstring of the plugin

    lines = str(report.longrepr).splitlines()
    raised = "\n".join(line for line in lines if line.startswith("E "))
    if not any(name in raised and name not in os.environ for name in KEYS):
        return False
    source = collector.path.read_text(encoding="utf-8", errors="replace")
    return "simloop" in source or bool(collector.config.getini("simloop_auto"))
