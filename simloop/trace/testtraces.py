"""Writes the traces of a test, each under a name that no other test has, with their pages.

Not here: which traces are wanted (pytest_plugin). The rule to keep: a trace that cannot be
written is reported and fails nothing.
"""

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.trace.codec import write_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.storage import write_file

_SUFFIX = ".simloop.yaml"


class KeptTrace(NamedTuple):
    """A trace that may be written. `page` makes its page, or is None if none is wanted."""

    trace: LoopTrace
    page: Callable[[], str] | None


def write_traces(
    kept: Iterable[KeptTrace], folder: Path, node_id: str, root: Path
) -> Iterator[str]:
    """Write the traces of the test `node_id`, and their pages.

    Yields the command that shows each trace, and the path of each page; or the error.
    """
    for number, (trace, page) in enumerate(kept, start=1):
        name = f"{file_name(node_id)}{f'.{number}' if number > 1 else ''}"
        path, beside = folder / f"{name}.trace.jsonl", folder / f"{name}.html"
        try:
            folder.mkdir(exist_ok=True)
            write_trace(trace, path)
            yield escape(f"simloop show {shlex.quote(str(path.relative_to(root)))}")
            if page is not None and trace.entries:
                write_file(beside, page().encode())
                yield escape(f"page: {beside.relative_to(root)}")
        except (OSError, ScenarioError) as error:
            yield escape(str(error))


def file_name(node_id: str) -> str:
    """Return a recognisable file name that no other test has."""
    plain = re.sub(rf"{re.escape(_SUFFIX)}::[^:]*$", "", node_id).replace("::", ".")
    name = re.sub(r"[^\w.=\[\]-]+", "_", plain.replace("/", "."), flags=re.ASCII).lstrip(".")
    if re.fullmatch(r"(?!\.)[\w./=\[\]-]{1,150}", plain, re.ASCII):
        return name
    encoded = node_id.encode(errors="surrogatepass")
    return f"{name[:150]}-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"
