"""The wire formats that simloop speaks: one file each, and its name here."""

from importlib import import_module
from typing import Any

# The requests that they answer exclude each other.
_CLASSES = {
    "openai_chat": "OpenAIChat", "openai_responses": "OpenAIResponses",
    "anthropic_messages": "AnthropicMessages", "gemini": "Gemini", "bedrock": "Bedrock",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return `FORMATS`, the classes, loaded on first use: most commands need none."""
    if name != "FORMATS":
        raise AttributeError(name)
    made = (getattr(import_module(f"{__name__}.{file}"), each) for file, each in _CLASSES.items())
    return globals().setdefault(name, tuple(made))
