"""The capacity card: what was carried, how fast, at what cost, and what limits. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from load_tests.bench.bottleneck import Limit
from load_tests.bench.costs import Costs
from load_tests.bench.search import Tried, Verdict
from load_tests.bench.ticks import Memory
from load_tests.probes import Percentiles

CPU_NOTE = "the simulator and bench's own probes run on the same cores"
OUTSIDE = ("simulate", "bench")
"""Parts of a run that are not of the pipeline: vehicles, and who measures."""
MOST_SECURE = 1.3
"""So many times the CPU may a frame cost the pipeline with everything secure."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One load that was watched to its end. ``cores`` is CPU time over wall time; lags in records."""

    frames_per_s: float
    samples_per_s: float
    vehicles: int
    seconds: float
    verdict: Verdict
    offered_per_s: float
    overrun_share: float
    lag_median: dict[str, float]
    lag_most: dict[str, float]
    lag_growth_per_s: dict[str, float]
    broker_queue_most: int
    broker_dropped: int
    event_to_view: Percentiles
    crash_to_alert: Percentiles
    cores: dict[str, float]
    us_a_frame: dict[str, float]
    other_cores: float
    idle_cores: float
    memory: dict[str, Memory]
    batches: Sequence[Mapping[str, Any]]

    @property
    def memory_flat(self) -> bool:
        """Whether no part of the pipeline grows; the simulator and the probes are not of it."""
        return all(m.flat is not False for name, m in self.memory.items() if name != "simulate")

    @property
    def pipeline_us(self) -> float:
        """CPU of a frame in all parts of the pipeline."""
        return round(sum(us for part, us in self.us_a_frame.items() if part not in OUTSIDE), 1)


@dataclass(frozen=True, slots=True)
class Card:
    """A run of ``odograph bench``. ``sustained`` is None where no rate held.

    ``beside``: the same without certificates, from the same command, on the card of a ``secure`` one.
    """

    date: str
    commit: str
    command: str
    machine: dict[str, str]
    versions: dict[str, str]
    load: str
    sustained: Carried | None
    limits: Sequence[Limit]
    limits_at: float
    stages: Sequence[Tried]
    costs: Costs | None
    residual: int | None
    soak: Carried | None = None
    idle_cores: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = field(default_factory=tuple)
    secure: bool = False
    beside: Card | None = None

    @property
    def good(self) -> bool:
        """Whether the figures hold: a flat lag, an honest load, nothing lost, memory flat in the soak.

        Of a secure one beside an open one also both, and what it costs.
        """
        held = self.sustained is not None and self.sustained.verdict == "held"
        soaked = self.soak is None or (self.soak.verdict == "held" and self.soak.memory_flat)
        both = self.beside is None or (self.beside.good and self.times_cpu <= MOST_SECURE)
        return held and soaked and self.residual == 0 and both

    @property
    def times_cpu(self) -> float:
        """CPU of a frame in the pipeline over that of the card beside it; NaN where one is missing."""
        if self.sustained is None or self.beside is None or self.beside.sustained is None:
            return math.nan
        return round(self.sustained.pipeline_us / self.beside.sustained.pipeline_us, 3)


def as_json(card: Card) -> dict[str, Any]:
    """For machines."""
    more: dict[str, Any] = {"good": card.good, "times_cpu": card.times_cpu}
    if card.beside is not None:
        more["beside"] = as_json(card.beside)
    plain: dict[str, Any] = _without_nan(asdict(card) | more)
    return plain


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: what could not be measured is null."""
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def text(card: Card) -> str:
    """For people: aligned lines."""
    lines = [text(card.beside), ""] if card.beside is not None else []
    kind = "SECURE" if card.secure else "OPEN"
    lines += [f"CAPACITY CARD, {kind}  {card.date}  commit {card.commit or 'unknown'}", f"  {card.command}"]
    lines += [_pairs("machine", card.machine), _pairs("versions", card.versions), f"  load: {card.load}", ""]
    if card.sustained is None:
        lines.append("  no rate held: nothing is sustained")
    else:
        lines += _carried("sustained", card.sustained)
    if card.soak is not None:
        lines += ["", *_carried("soak", card.soak), *_memory(card.soak)]
    elif card.sustained is not None:
        lines += ["", *_memory(card.sustained)]
    lines += ["", f"  what limits (measured at {card.limits_at:,.0f} frames/s, nearest to its limit first)"]
    lines += [f"    {limit.share:5.0%}  {limit.name}: {limit.detail}" for limit in card.limits]
    lines += ["", *_costs(card.costs)] if card.costs else []
    idle = sorted(card.idle_cores.items(), key=lambda part: -part[1])
    lines += ["", "  cores while nothing flows: " + "  ".join(f"{part} {used:.2f}" for part, used in idle)]
    stages = ", ".join(f"{t.rate:,.0f} {t.verdict} ({t.taken_per_s:,.0f} taken in)" for t in card.stages)
    lines += ["", f"  stages: {stages}"] if card.stages else []
    lines += [f"  note: {note}" for note in card.notes]
    lines.append(f"  ledger residual: {'not taken' if card.residual is None else card.residual}")
    if card.beside is not None and card.sustained is not None and card.beside.sustained is not None:
        lines += _compared(card.beside.sustained, card.sustained)
    lines.append("  VERDICT: " + ("these figures hold" if card.good else _why_not(card)))
    return "\n".join(lines)


def _why_not(card: Card) -> str:
    if card.sustained is None:
        return "no rate held"
    reasons = {
        "void: the simulator could not keep its rate": card.sustained.verdict == "void",
        "the lag grew": card.sustained.verdict == "grew",
        "the ledger does not balance": card.residual != 0,
        "the soak's lag grew or its load was void": card.soak is not None and card.soak.verdict != "held",
        "memory grew in the soak": card.soak is not None and not card.soak.memory_flat,
        "the open card does not hold": card.beside is not None and not card.beside.good,
        f"secure costs more than {MOST_SECURE:g} times the CPU": card.times_cpu > MOST_SECURE,
    }
    return "; ".join(reason for reason, holds in reasons.items() if holds)


def _pairs(name: str, values: Mapping[str, str]) -> str:
    return f"  {name}: " + ", ".join(f"{key} {value}" for key, value in values.items())


def _carried(name: str, c: Carried) -> list[str]:
    judged = {"held": "lag flat", "grew": "LAG GREW", "void": "VOID: the load was late"}[c.verdict]
    rows = [
        f"  {name}: {c.frames_per_s:,.0f} frames/s = {c.samples_per_s:,.0f} samples/s "
        f"from {c.vehicles:,} vehicles for {c.seconds:,.0f} s, {judged}",
        f"    load offered {c.offered_per_s:,.0f} frames/s, {c.overrun_share:.2%} more than 100 ms late",
        f"    event to view   {_latency(c.event_to_view)}",
        f"    crash to alert  {_latency(c.crash_to_alert)}",
    ]
    for query, median in c.lag_median.items():
        rows.append(
            f"    lag {query:<12} median {median:,.0f}  most {c.lag_most[query]:,.0f} records"
            f"  growth {c.lag_growth_per_s[query]:+,.1f}/s"
        )
    rows.append(f"    broker's queue  most {c.broker_queue_most:,}  dropped {c.broker_dropped:,}")
    busiest = sorted(c.cores, key=lambda part: -c.cores[part])
    each = "  ".join(f"{part} {c.cores[part]:.2f} ({c.us_a_frame[part]:.0f} us)" for part in busiest)
    rows.append(f"    cores (CPU a frame, {c.pipeline_us:.0f} us in all of the pipeline): {each}")
    rows.append(f"    cores of others {c.other_cores:.2f}, idle {c.idle_cores:.2f}; {CPU_NOTE}")
    return rows


def _compared(plain: Carried, secure: Carried) -> list[str]:
    """Both, part by part."""
    rows = [(part, us, secure.us_a_frame.get(part, math.nan)) for part, us in plain.us_a_frame.items()]
    rows.sort(key=lambda row: -row[2])
    rows.append(("the pipeline", plain.pipeline_us, secure.pipeline_us))
    both = sum(plain.us_a_frame.values()), sum(secure.us_a_frame.values())
    rows.append(("with simulator, bench", *both))
    head = f"  CPU of a frame, us, at {plain.frames_per_s:,.0f} and {secure.frames_per_s:,.0f} frames/s"
    lines = [f"{head}: open, secure, times"]
    return lines + [f"    {part:<22}{a:9.1f}{b:9.1f}{b / a if a else math.nan:8.2f}" for part, a, b in rows]


def _latency(p: Percentiles) -> str:
    figures = {"p50": p.p50_ms, "p95": p.p95_ms, "p99": p.p99_ms, "max": p.max_ms}
    return "  ".join(f"{name} {ms:,.0f}" for name, ms in figures.items()) + f" ms  ({p.count:,} measured)"


def _memory(c: Carried) -> list[str]:
    head = f"  memory over {c.seconds:,.0f} s at {c.frames_per_s:,.0f} frames/s, MiB"
    rows = [f"{head}: begin, end, most, slope a minute"]
    for part, m in c.memory.items():
        judged = {True: "flat", False: "GROWS", None: "too short to tell"}[m.flat]
        figures = f"{m.begin_mb:8,.0f} {m.end_mb:8,.0f} {m.most_mb:8,.0f} {m.slope_mb_per_min:+9.1f}"
        rows.append(f"    {part:<10} {figures}  {judged}")
    return rows


def _costs(c: Costs) -> list[str]:
    n = c.samples_a_frame
    places = {"as sent": c.payload, "in Kafka": c.log, "in the archive": c.archive}
    places |= {"in the database": c.database, "WAL written": c.wal}
    each = "  ".join(f"{place} {bytes_:,.0f} ({bytes_ / n:,.1f})" for place, bytes_ in places.items())
    return [
        f"  bytes a frame (a sample): {each}",
        f"  bytes a row: vehicle_window {c.window_row:,.0f} ({c.window_row_index_share:.0%} of it indexes; "
        f"{c.windows:,} rows), road_cell_window {c.road_row:,.0f} ({c.road_windows:,} rows)",
        *(_grown(name, part) for name, part in (("folder", c.folders), ("table", c.tables)) if part),
    ]


def _grown(what: str, sizes: Mapping[str, float]) -> str:
    """What each folder or table grew by, the largest first; the small ones as one."""
    told = {name: size for name, size in sizes.items() if abs(size) >= 0.5}
    rest = sum(sizes.values()) - sum(told.values())
    each = "  ".join(f"{name} {size:,.1f}" for name, size in told.items())
    return f"  grown by, bytes a frame, by {what}: {each}  others {rest:,.1f}"
