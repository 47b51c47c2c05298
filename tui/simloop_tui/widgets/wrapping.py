"""Escaped text at the width of a pane, in cells of the terminal: wrapped, or cut."""

from collections.abc import Iterator

from rich.cells import cell_len, chop_cells, set_cell_size

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def shortened(text: str, width: int) -> str:
    """Return `text` if it has at most `width` cells, or its beginning with an ellipsis after it."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + _ELLIPSIS if width > 0 else ""


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of `text`, each at most `width` cells; a line breaks at a space if it can."""
    width = max(width, 1)
    while cell_len(text) > width:
        line = chop_cells(text, width)[0] or text[:1]
        space = line.rfind(" ")
        if space > width // 4 and text[len(line)] != " ":
            line = line[:space]
        yield line
        text = text[len(line) :].lstrip(" ")
    yield text
