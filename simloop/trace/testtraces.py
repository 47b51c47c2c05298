"""Writes the traces of a test, each under a name that no other test has.

Not here: which traces are wanted (pytest_plugin.py). The rule to keep: a trace that cannot be
written is reported and fails nothing.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.trace.codec import write_trace
from simloop.trace.looptrace import LoopTrace

_SUFFIX = ".simloop.yaml"


def write_traces(
    traces: Iterable[LoopTrace], folder: Path, node_id: str, root: Path
) -> Iterator[str]:
    """Write the traces of the test `node_id`; yield the command that shows each, or the error."""
    for number, trace in enumerate(traces, start=1):
        path = folder / f"{file_name(node_id)}{f'.{number}' if number > 1 else ''}.trace.jsonl"
        try:
            folder.mkdir(exist_ok=True)
            write_trace(trace, path)
        except (OSError, ScenarioError) as error:
            yield escape(str(error))
        else:
            yield escape(f"simloop show {shlex.quote(str(path.relative_to(root)))}")


def file_name(node_id: str) -> str:
    """Return a recognisable file name that no other test has."""
    plain = re.sub(rf"{re.escape(_SUFFIX)}::[^:]*$", "", node_id).replace("::", ".")
    name = re.sub(r"[^\w.=\[\]-]+", "_", plain.replace("/", "."), flags=re.ASCII).lstrip(".")
    if re.fullmatch(r"(?!\.)[\w./=\[\]-]{1,150}", plain, re.ASCII):
        return name
    encoded = node_id.encode(errors="surrogatepass")
    return f"{name[:150]}-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"
