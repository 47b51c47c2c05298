"""Deterministic simulation testing for LLM agent loops.

    from simloop import Reply, Scenario, run

    result = run(Scenario(prompt="Hello?", model=[Reply(say="Hello.")]))
    assert result.text == "Hello."

This module is the public interface, and nothing else re-exports. The stub `__init__.pyi` lists the
names, once, for type checkers and for this module. Names load lazily, so the pytest plugin and
`--version` start fast. This module imports no other when it loads, because it loads before the
command can handle a Ctrl-C.
"""

__version__ = "0.1.0"
_homes: dict[str, str] = {}  # the module of each public name


def _public() -> dict[str, str]:
    if not _homes:
        with open(f"{__file__.removesuffix('.py')}.pyi", encoding="utf-8") as stub:  # noqa: PTH123 - pathlib takes 4 ms to import
            for line in stub:
                words = line.split()
                if words[:1] == ["from"]:
                    _homes[words[-1]] = words[1]
    return _homes


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public())
    if name not in _public():
        raise AttributeError(f"module 'simloop' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - see the docstring of the module

    value = getattr(importlib.import_module(_homes[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_public())
