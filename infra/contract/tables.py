"""Writes the contract's tables into the README, between its markers."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.contract import signals, topics

TABLES = {"topics": topics.markdown_table, "signals": signals.markdown_table}


def with_tables(text: str) -> str:
    """``text`` with each table between its markers written anew."""
    for name, table in TABLES.items():
        head, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        text = f"{head}<!-- {name} -->\n{table()}\n{end}{tail}"
    return text


if __name__ == "__main__":
    readme = Path(sys.argv[1])
    readme.write_text(with_tables(readme.read_text()))
