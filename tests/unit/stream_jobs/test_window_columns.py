"""What the jobs write are the columns of their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import infra.sql
from stream_jobs.app.schema import WRITER_COLUMNS
from stream_jobs.maintenance.rollups import NAMES
from stream_jobs.windows import places
from stream_jobs.windows import vehicle as windows

ROAD, EDGE = places.place_rows(places.SHARE.empty_table(), 60)
COLUMNS = {
    "vehicle_window": {*windows.NO_WINDOWS.column_names, *WRITER_COLUMNS},
    "road_cell_window": {*ROAD.column_names, *WRITER_COLUMNS},
    "road_edge_window": {*EDGE.column_names, *WRITER_COLUMNS},
    "vehicle_minute": {"vehicle_id", "bucket", "revision", "restated_at", *NAMES},
}


@pytest.mark.parametrize("table", COLUMNS)
def test_the_columns_are_those_of_the_table(table: str) -> None:
    assert columns_of(table) == COLUMNS[table]


def columns_of(table: str) -> set[str]:
    """Columns that the files of infra.sql give to a table, in their order."""
    names: set[str] = set()
    for path in sorted(Path(infra.sql.__file__).parent.glob("*.sql")):
        text = path.read_text()
        created = re.search(rf"CREATE TABLE odograph\.{table} \((.*?)\n\);", text, re.DOTALL)
        if created is not None:
            names |= set(re.findall(r"^    ([a-z]\w+) ", created[1], re.MULTILINE))
        for altered in re.findall(rf"ALTER TABLE odograph\.{table}\b(.*?);\n", text, re.DOTALL):
            names |= set(re.findall(r"ADD COLUMN (\w+) ", altered))
    return names
