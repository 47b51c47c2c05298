"""Every fault of the benchmark, as the files of `faults` state them."""

import json
from pathlib import Path
from typing import Any

from fault import Edit, Fault

from simloop.scenario.yaml import read_yaml

_FOLDER = Path(__file__).with_name("faults")
_FILES = (
    "reference", "designs", "waits", "model-calls", "context", "runs", "limits", "tools", "hooks",
    "sequential", "parallel", "managed",
    "sdk-chat", "sdk-threads", "sdk-responses", "sdk-claude", "sdk-refunds", "sdk-handoffs",
    "sdk-graph", "sdk-tables", "sdk-coder",
)  # fmt: skip


def _faults(file: str) -> list[Fault]:
    path = _FOLDER / f"{file}.yaml"
    stated = read_yaml(path.read_text("utf-8"), str(path)).data
    return [_fault(name, keys) for name, keys in stated.items()]


def _fault(name: str, keys: dict[str, Any]) -> Fault:
    edits = tuple(Edit(each["in"], each["replace"], each["by"]) for each in keys.pop("edits"))
    right, wrong = json.dumps(keys.pop("right")), json.dumps(keys.pop("wrong"))
    for key in ("violates", "circumstances"):
        keys[key] = tuple(keys.get(key, ()))
    return Fault(name=name, edits=edits, right=right, wrong=wrong, **keys)


FAULTS = tuple(fault for file in _FILES for fault in _faults(file))
