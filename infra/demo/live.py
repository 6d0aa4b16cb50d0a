"""The line a second that a demo prints, from the figures of its parts."""

from __future__ import annotations

import json
import time
from pathlib import Path

from infra.clients.kafka import LogEnds
from infra.contract.errors import ServiceError
from infra.settings.settings import Endpoints
from infra.sql import figures


class Pulse:
    """Reads the parts and says how they stand; what does not answer is shown as such, never as 0."""

    def __init__(self, run_file: Path, endpoints: Endpoints, ends: LogEnds) -> None:
        self._run_file = run_file
        self._endpoints = endpoints
        self._ends = ends
        self._begun_s = time.monotonic()
        self._before = (self._begun_s, self._published())
        self._appended_before = ends.appended("telemetry")
        self._counted_before = figures.ledger(endpoints.db_ingest_url)["frames_counted"]
        self.first_map_s: float | None = None

    def line(self) -> str:
        """The figures since the run began."""
        now_s, published = time.monotonic(), self._published()
        rate = (published - self._before[1]) / max(1e-9, now_s - self._before[0])
        self._before = (now_s, published)
        head = f"{now_s - self._begun_s:4.0f} s  published {published:,} ({rate:,.0f}/s)"
        return f"{head}  bridged {self._bridged()}  {self._stored()}"

    def _published(self) -> int:
        try:
            return int(json.loads(self._run_file.read_text())["sent"])
        except FileNotFoundError:
            return 0

    def _bridged(self) -> str:
        try:
            return f"{self._ends.appended('telemetry') - self._appended_before:,}"
        except ServiceError:
            return "(no answer)"

    def _stored(self) -> str:
        try:
            row = figures.pulse(self._endpoints.db_ingest_url)
        except ServiceError:
            return "windowed (no answer)"
        if self.first_map_s is None and row["vehicles_reporting"]:
            self.first_map_s = time.monotonic()
        lag = "unknown" if row["lag_records"] is None else f"{row['lag_records']:,}"
        behind = "unknown" if row["watermark_lag_s"] is None else f"{row['watermark_lag_s']:.0f} s"
        return (
            f"windowed {row['frames_counted'] - self._counted_before:,}  lag {lag}  watermark -{behind}"
            f"  late {row['records_late']:,}  alerts {row['alerts_active']:,}"
        )
