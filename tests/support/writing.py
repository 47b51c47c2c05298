"""Scenarios in the current folder."""

from pathlib import Path


def write(name: str, text: str) -> str:
    path = Path(f"{name}.simloop.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)
