"""Reports as text: plain columns by ``aligned``; ``table`` and ``rendered`` where a terminal shows colours.

Cells may be any values: None is ``-``, 12345 ``12,345``, 2.345 ``2.3``, True ``yes``, a datetime
``2026-11-20 08:00:00`` in UTC; of a text control characters are spaces. Columns of numbers are flush right.
``aligned(totals.items())`` is a list of names and values; ``aligned(rows, {"vehicle": "", "km": ".2f",
"state": ">"})`` has heads with formats.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Integral, Real
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH = 200  # of what is no terminal, characters
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Nothing in it can move a terminal's cursor or break a line: much of what is told a vehicle has said."""
    return _CONTROL.sub(" ", text)


def cell(value: object, form: str = "") -> str:
    """The text of one cell by the format ``form``, or by the kind of the value; None is always ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool) and not form:
        return "yes" if value else "no"
    if isinstance(value, datetime):
        value, form = value.astimezone(UTC), form or "%Y-%m-%d %H:%M:%S"
    elif isinstance(value, Real):
        form = form or (",d" if isinstance(value, Integral) else ",.1f")
    return plain(format(value, form))


def aligned(
    rows: Iterable[Sequence[object]], heads: Sequence[str] | Mapping[str, str] = (), indent: str = ""
) -> str:
    """Plain columns as wide as their longest cell, without a line's end after the last row.

    ``heads`` may hold formats: the format of ``format()`` for the cells below a head, which ``>`` alone makes
    flush right. Without rows there are the heads alone.
    """
    forms = [*heads.values()] if isinstance(heads, Mapping) else []
    columns = []
    for number, values in enumerate(zip(*rows, strict=True)):
        form = forms[number] if forms else ""
        right = form == ">" or _numeric(values)
        head = [[*heads][number]] if heads else []
        texts = [*head, *(cell(value, form) for value in values)]
        width = max(map(len, texts))
        columns.append([text.rjust(width) if right else text.ljust(width) for text in texts])
    lines = zip(*columns, strict=True) if columns else [heads] if heads else []
    return "\n".join(indent + "  ".join(line).rstrip() for line in lines)


def table(*heads: str, rows: Iterable[Sequence[object]] = ()) -> Table:
    """A table without lines; cells fold where they are long. Of ``rows`` each is shown as it is."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    rows = [*rows]
    for number, head in enumerate(heads):
        right = bool(rows) and _numeric([row[number] for row in rows])
        made.add_column(head, overflow="fold", justify="right" if right else "left")
    for row in rows:
        made.add_row(*(escape(cell(value)) for value in row))
    return made


def rendered(*parts: Table | str) -> str:
    """Tables and lines, which may hold markup, as text for standard output."""
    screen, out = Console(), io.StringIO()
    width = screen.width if screen.is_terminal else WIDTH
    Console(file=out, highlight=False, force_terminal=screen.is_terminal, width=width).print(*parts, sep="\n")
    return out.getvalue()


def _numeric(values: Sequence[object]) -> bool:
    given = [value for value in values if value is not None]
    return bool(given) and all(isinstance(value, Real) for value in given)
