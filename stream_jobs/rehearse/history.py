"""The archive through the core of the stream, with whatever rules: Spark in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own convention

from infra.archive.layout import telemetry_of
from infra.contract.errors import ConfigError
from infra.contract.settings import Settings
from stream_jobs import sources
from stream_jobs.batch import archive_files
from stream_jobs.findings import rule_schemas
from stream_jobs.frames.batch import RECORD, as_arrow
from stream_jobs.rehearse.compare import Comparison, compare, episodes, renamed, with_mark
from stream_jobs.repair_plan import hours_ms
from stream_jobs.rule_check import check_expressions, check_translations
from stream_jobs.rule_kinds import Lasting, Level
from stream_jobs.rules import INSTANT, VEHICLES, Rule
from stream_jobs.vehicles.core import Core, CoreLimits
from stream_jobs.vehicles.limits import core_limits
from stream_jobs.vehicles.plugged import Detection, of_rules
from stream_jobs.vehicles.replay import arrivals_of, replay
from stream_jobs.vehicles.rows import AlertRow, pack
from stream_jobs.vehicles.stage import VehicleStage, vehicle_stage

MARK: Final = "@changed"
FOUND: Final = "body binary"


@dataclass(frozen=True, slots=True)
class Span:
    """Alerts that open from ``from_ms`` to ``until_ms`` count (event time); ``lead_ms`` is read before.

    What lasts needs a run-up: without it a rule would be raised late at the beginning of the span.
    """

    from_ms: int
    until_ms: int
    lead_ms: int
    vehicle_id: str | None


def rehearse(
    spark: SparkSession, settings: Settings, path: Path, in_force: Sequence[Rule], changed: Sequence[Rule],
    span: Span,
) -> Comparison:  # fmt: skip
    """The changed rules of the file ``path`` beside those in force with the same ids, over one history.

    Raises ConfigError for a rule that cannot be rehearsed, an expression that Spark refuses, and a span of
    which the archive has nothing.
    """
    check_expressions(spark, path, changed, rule_schemas())
    ids = {rule.id for rule in changed}
    before = [rule for rule in in_force if rule.id in ids]
    lasting = [_lasting(path, rule) for rule in (*before, *with_mark(changed, MARK))]
    check_translations(path, lasting)
    found = findings(settings, records(spark, settings, span), lasting, span.until_ms)
    plain, marked = renamed(found, MARK)
    times = (span.from_ms, span.until_ms)
    return compare(episodes(plain, before, *times), episodes(marked, changed, *times))


def records(spark: SparkSession, settings: Settings, span: Span) -> DataFrame:
    """Archived records whose samples begin in the span or its run-up."""
    first_ms = span.from_ms - span.lead_ms
    late_ms = settings.jobs.rehearse_late_h * 3_600_000
    files = archive_files(settings.paths.home, hours_ms([(first_ms, span.until_ms + late_ms)], []))
    if not files:
        folder = telemetry_of(settings.paths.home)
        raise ConfigError(f"the archive {folder} has nothing of that span; see --from and --to (UTC)")
    found = sources.archive(spark, files).where(F.col("t0_ms").between(first_ms, span.until_ms))
    return found if span.vehicle_id is None else found.where(F.col("vehicle_id") == span.vehicle_id)


def findings(settings: Settings, stored: DataFrame, rules: Sequence[Rule], until_ms: int) -> list[AlertRow]:
    """What rules that last find in records, whole vehicles at a time; the clock runs on to ``until_ms``."""
    detection = of_rules(rules)
    player = Player(core_limits(settings), detection, vehicle_stage(settings, detection), until_ms)
    # A function and no method: Spark counts the parameters, and would hand a method the key too.
    found = sources.by_group(stored, *RECORD).applyInPandas(lambda group: player(group), FOUND)  # noqa: PLW0108
    return [msgspec.json.decode(row["body"], type=AlertRow) for row in found.toLocalIterator()]


@dataclass(frozen=True, slots=True)
class Player:
    """What is sent to the workers: archived records of some vehicles in, findings out."""

    limits: CoreLimits
    detection: Detection
    stage: VehicleStage
    until_ms: int

    def __call__(self, records: pd.DataFrame) -> pd.DataFrame:
        """Rows of FOUND."""
        core = Core(self.limits, self.detection)
        bodies = [
            pack(row)
            for placed in arrivals_of(self.stage, [as_arrow(records)]).values()
            for row in replay(core, (each[2] for each in placed), self.until_ms)
            if isinstance(row, AlertRow)
        ]
        return pd.DataFrame({"body": bodies})


def _lasting(path: Path, rule: Rule) -> Rule:
    """A rule of one frame as a level that need not last: the same alerts by the same core."""
    if rule.query == VEHICLES:
        return rule
    if rule.source != "frame":
        name = rule.id.removesuffix(MARK)
        raise ConfigError(
            f"rules file {path}, rule {name}: crash records are not in the archive of telemetry"
        )
    assert rule.query == INSTANT
    return replace(rule, query=VEHICLES, lasting=Lasting(Level()))
