"""The arguments of a tool call: read, converted, validated, and read again after hooks.

Not here: the wording of errors in them (tools.py) and the conversion (conversion.py). The
rule to keep: a tool gets the arguments that the trace shows.
"""

from typing import Any

import msgspec

from simloop.world.conversion import converted
from simloop.world.tools import Tool, canonical_json, wrong_arguments

_decode = msgspec.json.Decoder().decode


def read_arguments(tool: Tool, text: str, *, convert: bool = False) -> tuple[Any, str, str]:
    """Return the arguments, their JSON, and the error for the model (document 001, step 3.1).

    `convert` changes arguments of the wrong type to the types of the schema.
    """
    try:
        arguments = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}, text, "Error: Invalid parameters\narguments: not valid JSON"
    if not convert:
        return arguments, text, _complaint(tool, arguments)
    made = converted(tool, arguments)
    shown = text if made == arguments else canonical_json(made).decode()
    return made, shown, _complaint(tool, made)


def read_again(
    tool: Tool, arguments: dict[str, Any], *, check: bool
) -> tuple[dict[str, Any], str, str]:
    """Read the arguments that hooks may have changed; `check` validates them.

    Returns the arguments, their JSON, and the error for the model.
    """
    try:
        shown = canonical_json(arguments)
    except (TypeError, ValueError, RecursionError):
        return {}, "", "Error: Invalid parameters\narguments: a hook made them no JSON"
    arguments = msgspec.json.decode(shown)
    return arguments, shown.decode(), _complaint(tool, arguments) if check else ""


def _complaint(tool: Tool, arguments: Any) -> str:
    wrong = wrong_arguments(tool, arguments)
    if not wrong and not isinstance(arguments, dict):
        wrong = ["arguments: must be an object"]
    return "\n".join(["Error: Invalid parameters", *wrong]) if wrong else ""
