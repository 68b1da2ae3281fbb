"""Tables on terminals that are too narrow for them: no word is broken and no number cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Column, Row, Table
from rich.text import Text

LONG = 28  # characters from which on a word without a place to break is none that people read: it is folded
# A line may break at spaces, and within the words of a specification or a path.
PIECE = re.compile(r"\s*\S+?(?:[,:](?=[^\W\d])|/(?=[^\W\d]{2})|\s+|$)")


class Look(NamedTuple):
    """How the columns of a table are told apart."""

    boxed: bool
    gap: int  # characters between two columns
    whole: bool  # whether cells that are not to be wrapped are not

    def around(self, columns: int) -> int:
        """The characters that are not in a column."""
        return self.gap * columns + 1 if self.boxed else self.gap * (columns - 1)


LOOKS = (Look(True, 3, True), Look(False, 2, True), Look(False, 1, True), Look(False, 1, False))


def fitted(table: Table, width: int) -> RenderableType:
    """The table if it fits; else with its cells wrapped, without lines, or every row in words."""
    cells = [[_text(cell) for cell in column.cells] for column in table.columns]
    around = LOOKS[0].around(len(cells))
    natural = [
        max(map(_length, [_text(column.header), *column_cells]))
        for column, column_cells in zip(table.columns, cells, strict=True)
    ]
    if sum(natural) + around <= width:
        return table
    for look in LOOKS:
        least = [_least(*both, look) for both in zip(table.columns, cells, strict=True)]
        room = width - look.around(len(cells))
        if sum(least) <= room:
            return _drawn(table, cells, _widths(natural, least, room), look)
    return _told(table, cells, width)


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))


def _length(text: Text) -> int:
    return cell_len(text.plain)


def _least(column: Column, cells: Sequence[Text], look: Look) -> int:
    """The width that breaks no word."""
    keep = column.no_wrap and look.whole
    return max([_longest(_text(column.header)), *(map(_length, cells) if keep else map(_longest, cells))])


def _longest(text: Text) -> int:
    """The longest piece of a text."""
    pieces = (cell_len(piece[0].rstrip()) for piece in PIECE.finditer(text.plain))
    return max((min(piece, LONG) for piece in pieces), default=0)


def _widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """The widest of those that can give way do, until all have room."""
    widths = list(natural)
    while sum(widths) > room:
        ample = [place for place, width in enumerate(widths) if width > least[place]]
        widths[max(ample, key=widths.__getitem__)] -= 1
    return widths


def _drawn(table: Table, cells: Sequence[Sequence[Text]], widths: Sequence[int], look: Look) -> Table:
    """The table in these widths."""
    new = Table(
        title=table.title, title_justify=table.title_justify, caption=table.caption,
        caption_justify=table.caption_justify,
    )  # fmt: skip
    if not look.boxed:  # the box has a character between columns of itself
        new.box, new.show_edge, new.pad_edge, new.padding = SIMPLE_HEAD, False, False, (0, look.gap - 1, 0, 0)
    for column, width in zip(table.columns, widths, strict=True):
        header = _wrapped(_text(column.header), width)
        new.add_column(header, justify=column.justify, width=width, overflow="fold")
    for row, texts in _rows(table, cells):
        lines = (_wrapped(text, width) for text, width in zip(texts, widths, strict=True))
        new.add_row(*lines, style=row.style, end_section=row.end_section)
    return new


def _rows(table: Table, cells: Sequence[Sequence[Text]]) -> Iterator[tuple[Row, tuple[Text, ...]]]:
    return zip(table.rows, zip(*cells, strict=True), strict=True)


def _wrapped(text: Text, width: int) -> Text:
    """The text in lines of this width."""
    breaks, used = list[int](), 0
    for piece in PIECE.finditer(text.plain):
        if used and used + cell_len(piece[0].rstrip()) > width:
            breaks.append(piece.start())
            used = 0
        used += cell_len(piece[0])
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _told(table: Table, cells: Sequence[Sequence[Text]], width: int) -> Group:
    """Every row as `name, name: heading value, heading value`; one without a name goes on with that above."""
    headings = [_text(column.header).plain for column in table.columns]
    sides = [column.justify == "left" for column in table.columns]
    names = max(1, [*sides, False].index(False))  # which are on the left
    lines, who = [_text(table.title)] if table.title else [], ""
    for row, texts in _rows(table, cells):
        who = ", ".join(text.plain.strip() for text in texts[:names] if text.plain.strip()) or who
        pairs = zip(headings[names:], texts[names:], strict=True)
        what = ", ".join(f"{heading} {text.plain}".strip() for heading, text in pairs if text.plain)
        words = _wrapped(Text(": ".join(filter(None, (who, what))), row.style or ""), width - 2)
        lines.append(Text("\n  ").join(words.split("\n")))
    return Group(*lines, *([_text(table.caption)] if table.caption else []))
