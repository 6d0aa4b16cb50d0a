"""Reports as text: tables of aligned columns, coloured on a terminal, plain and wide elsewhere."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.table import Table

WIDTH = 200
"""Of what is no terminal, characters."""


def table(*columns: str, rows: Iterable[Sequence[str]] = (), right: Collection[str] = ()) -> Table:
    """A table without lines; cells may hold markup, columns in ``right`` are flush right, long ones fold."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", justify="right" if column in right else "left")
    for row in rows:
        made.add_row(*row)
    return made


def rendered(*parts: Table | str, width: int = WIDTH) -> str:
    """Tables and lines as text for standard output."""
    console = Console(highlight=False)
    out = io.StringIO()
    wide = console.width if console.is_terminal else width
    Console(file=out, highlight=False, force_terminal=console.is_terminal, width=wide).print(*parts, sep="\n")
    return out.getvalue()


def aligned(lines: Iterable[Sequence[str]], right: Collection[int] = (), gap: str = "  ") -> str:
    """Plain columns as wide as their longest cell; columns numbered in ``right`` are flush right."""
    lines = [*lines]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        gap.join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
