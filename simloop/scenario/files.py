"""New scenario files, with the schema beside them for editors.

Not here: the text of a scenario (scenario/writing.py). The rule to keep: no file is overwritten,
even if another process creates it at the same time.
"""

from pathlib import Path

from simloop.errors import ScenarioError
from simloop.scenario.jsonschema import schema_text
from simloop.scenario.writing import SCHEMA_FILE


def create_schema(folder: Path) -> Path | None:
    """Write the schema to the folder; return None if it exists. Raises ScenarioError."""
    schema = folder / SCHEMA_FILE
    return schema if create(schema, schema_text()) else None


def create(path: Path, text: str) -> bool:
    """Write a new file; return False if it exists, and keep it. Raises ScenarioError."""
    try:
        file = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        return False
    except (OSError, ValueError) as error:
        raise _not_created(path, error) from error
    try:
        with file:
            file.write(text)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _not_created(path, error) from error
        raise
    return True


def _not_created(path: Path, error: OSError | ValueError) -> ScenarioError:
    reason = getattr(error, "strerror", None) or str(error)
    hint = "name a file in a folder that exists and may be written to"
    return ScenarioError(f"cannot be created: {reason}", path=path, hint=hint)
