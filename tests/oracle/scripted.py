"""The results that the fake tools of a scenario must return, from the scenario alone.

Not here: judging them (tool_runs.py). The rule to keep: this module does not call the code that
makes the results, so that its errors are found.
"""

from simloop.scenario.schema import ScriptedTool
from simloop.world.tools import canonical_json


def expected_text(tool: ScriptedTool) -> str:
    """Return the text that a fake tool returns: an empty text for null, JSON for another value."""
    if tool.raises is not None:
        return f"Error: {tool.raises or 'ScriptedFailure'}"
    if tool.cancels:
        return "Error: the tool was cancelled"
    if tool.returns_chars is not None:
        return "x" * tool.returns_chars
    if tool.returns is None or isinstance(tool.returns, str):
        return tool.returns or ""
    return canonical_json(tool.returns).decode()
