"""The findings of `simloop check` as a JUnit file.

The format has no standard; this is the part that Jenkins, GitLab and GitHub's reporters read alike.
The rule to keep: the document is ASCII and a function of the scenarios alone, so `time` is virtual
time.
"""

import re
from pathlib import PurePath
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from simloop.cli.faults import describe
from simloop.cli.report import Report, Tally
from simloop.cli.terminal import plain
from simloop.errors import ExpectationFailed, SimloopError
from simloop.scenario.catalog import SUFFIX

_SUITE = "simloop"
# XML 1.0 cannot carry them, not even as references.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Suite:
    """A testsuite to which testcases are added."""

    def __init__(self) -> None:
        self._element = Element("testsuite", name=_SUITE)
        self._tally = Tally()
        self._elapsed_ns = 0
        self._skipped = 0

    def add(self, report: Report, skipped: str = "") -> None:
        """Add a testcase; `skipped` is the reason that it was not run."""
        self._elapsed_ns += report.elapsed_ns
        name = PurePath(report.name)
        folder = name.parent.as_posix()
        case = SubElement(
            self._element,
            "testcase",
            classname=_legal(folder) if name.parent.name else _SUITE,
            name=_legal(name.name.removesuffix(SUFFIX)),
            time=_seconds(report.elapsed_ns),
        )
        if report.path is not None:
            case.set("file", _legal(str(report.path)))
        if skipped:
            self._skipped += 1
            SubElement(case, "skipped", message=_legal(skipped))
            return
        self._tally.add(report.exit_code)
        if report.exit_code:
            _explain(case, report)

    def text(self) -> str:
        """Return the whole document, counts first."""
        counts = self._tally.words
        self._element.attrib |= {
            "tests": str(counts.total() + self._skipped),
            "failures": str(counts["FAILED"]),
            "errors": str(counts["ERROR"]),
            "skipped": str(self._skipped),
            "time": _seconds(self._elapsed_ns),
        }
        root = Element("testsuites")
        root.append(self._element)
        indent(root)
        # Without a declared encoding tostring writes ASCII with references, for any stdout.
        return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root).decode()}'


def _explain(case: Element, report: Report) -> None:
    """Write all findings in one element: readers of JUnit files look at the first only."""
    messages = (line for error in report.verdict.errors for line in _lines(error))
    lines = [*report.findings(), *messages]
    kind, message = ExpectationFailed.__name__, lines[0]
    worst = report.verdict.worst
    if worst is not None:
        kind, message = type(worst).__name__, _lines(worst)[0]
    tag = "failure" if report.exit_code == ExpectationFailed.exit_code else "error"
    found = SubElement(case, tag, type=kind, message=_legal(message))
    found.text = "\n".join(_legal(line) for line in lines)


def _lines(error: SimloopError) -> list[str]:
    return describe(error).split("\n")


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.3f}"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("", plain(text))
