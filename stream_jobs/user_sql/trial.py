"""Queries on the stream judged from the command line: a Spark of its own, no services."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.contract.verdict import clock_limits
from infra.settings.settings import Settings
from stream_jobs.app.jobs import STREAM_CONF
from stream_jobs.app.session import build_session
from stream_jobs.user_sql.check import check
from stream_jobs.user_sql.definition import Definition, least_watermark_s, read_file
from stream_jobs.user_sql.table import columns_of, table_of

MEMORY_MB: Final = 1024


@dataclass(frozen=True, slots=True)
class Checked:
    """A sound query: its table and the columns that it gives."""

    definition: Definition
    columns: dict[str, str]

    def text(self) -> str:
        """For people."""
        key = ", ".join(self.definition.key)
        lines = [f"{self.definition.path}: sound; table {table_of(self.definition)}, key ({key})"]
        return "\n".join([*lines, *(f"  {name:<24} {kind}" for name, kind in self.columns.items())])

    def json(self) -> str:
        """For machines."""
        found = {
            "file": str(self.definition.path),
            "query": self.definition.query,
            "view": self.definition.view,
        }
        return json.dumps(
            found | {"table": table_of(self.definition), "key": self.definition.key, "columns": self.columns}
        )


def tried(settings: Settings, files: Sequence[Path]) -> Iterator[Checked]:
    """Each file in turn, all read before Spark starts; raises ConfigError at the first that is not sound."""
    definitions = [read_file(path, least_watermark_s(settings)) for path in files]
    spark = build_session(settings, "odograph-sql-check", MEMORY_MB, "local[1]", STREAM_CONF)
    try:
        for definition in definitions:
            schema = check(spark, definition, clock_limits(settings))
            yield Checked(definition, columns_of(definition, schema))
    finally:
        spark.stop()
