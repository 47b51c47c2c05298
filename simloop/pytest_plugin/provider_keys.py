"""The keys of providers in tests: dummies for simulated tests, and for imports that need one.

Other tests and imports get none: tests that are skipped where there is no key would run.
"""

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from simloop.pytest_plugin.async_tests import is_ours
from simloop.pytest_plugin.reports import ScenarioItem

_FIXTURES = frozenset(("simloop_run", "virtual_clock", "fake_model", "hook_benchmark"))


def keys_for(item: pytest.Item) -> contextlib.AbstractContextManager[None]:
    """Return a context with dummy keys for a test that is simulated, with its fixtures."""
    return _dummies() if _is_simulated(item) else contextlib.nullcontext()


def _dummies() -> contextlib.AbstractContextManager[None]:
    from simloop.wire.api_keys import dummy_keys  # noqa: PLC0415 - see the docstring of the plugin

    return dummy_keys()


def _is_simulated(item: pytest.Item) -> bool:
    """Return whether a test is a scenario, or has the marker, a fixture or a name of simloop."""
    if isinstance(item, ScenarioItem) or is_ours(item):
        return True
    if not isinstance(item, pytest.Function):
        return False
    if item.get_closest_marker("simloop") or not _FIXTURES.isdisjoint(item.fixturenames):
        return True
    code, namespace = getattr(item.obj, "__code__", None), getattr(item.module, "__dict__", {})
    return isinstance(code, CodeType) and any(
        _is_of_simloop(namespace.get(name)) for name in code.co_names
    )


def _is_of_simloop(value: Any) -> bool:
    kind = type(value)
    if kind is ModuleType:
        name = value.__name__
    else:
        name = (value if kind is FunctionType or issubclass(kind, type) else kind).__module__
    return str(name).partition(".")[0] == "simloop"


def collected(
    collector: pytest.Collector,
    report: pytest.CollectReport,
    again: Callable[[], pytest.CollectReport],
) -> pytest.CollectReport:
    """Return the report, or that of a repeated import of a module whose import needs a key."""
    if report.failed and isinstance(collector, pytest.Module):
        raised = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        if _needs_key(collector.path, collector.config, "\n".join(raised)):
            with _dummies():
                return again()
    return report


def repeat_conftests(config: pytest.Config) -> None:
    """Let pytest repeat the import of a conftest that needs a key."""
    manager: Any = config.pluginmanager  # no hook is called around this import
    original = getattr(manager, "_importconftest", None)
    if original is not None:
        manager._importconftest = partial(_import_conftest, original, config)  # noqa: SLF001


def _import_conftest(
    original: Callable[..., Any], config: pytest.Config, path: Path, *args: Any, **more: Any
) -> Any:
    try:
        return original(path, *args, **more)
    except Exception as error:
        cause = getattr(error, "cause", None)  # a ConftestImportFailure has one
        if cause is None or not _needs_key(path, config, str(cause)):
            raise
    with _dummies():
        return original(path, *args, **more)


def _needs_key(path: Path, config: pytest.Config, raised: str) -> bool:
    from simloop.wire.api_keys import KEYS  # noqa: PLC0415 - see the docstring of the plugin

    if not any(name in raised and name not in os.environ for name in KEYS):
        return False
    source = path.read_text(encoding="utf-8", errors="replace")
    return "simloop" in source or bool(config.getini("simloop_auto"))
