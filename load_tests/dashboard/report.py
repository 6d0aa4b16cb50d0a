"""The figures of a run, against the aims of the pages."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Final

from load_tests.dashboard.paint import Paint
from load_tests.dashboard.reader import Run, by_path

PAINT_S: Final = 2.0
REFRESH_S: Final = 0.5
GROWTH_MB_H: Final = 10.0
"""Growth of the server that counts as flat, for all sessions together, MiB an hour."""
TELLING_S: Final = 600.0
"""A shorter run says nothing about growth by hour."""
SETTLED: Final = 0.4
"""Share of a run after which caches are full: memory is judged from there on."""


@dataclass(slots=True)
class Report:
    """What was measured. ``memory``: s, MiB of the server, MiB of a browser's heap."""

    vehicles: int
    readers: int
    paints: list[Paint] = field(default_factory=list)
    alone: list[Run] = field(default_factory=list)
    together: list[Run] = field(default_factory=list)
    memory: list[tuple[float, float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    cpu_ms: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """By page: CPU time of server and database by refresh of one reader, a first run among them. The
    database's is also of the rows that go on changing: the first entry, without a reader, says how much.
    """
    refresh_every_s: float = 2.0

    def missed(self) -> list[str]:
        """Aims that were missed, in words."""
        late = [
            f"{path}: header after {seconds:.2f} s"
            for path in paths(self.paints)
            if (seconds := header_s(self.paints, path)) > PAINT_S
        ]
        slow = [
            f"{path}: a refresh takes {seconds * 1000:.0f} ms"
            for path, runs in by_path(self.alone, first=False).items()
            if (seconds := refresh_s(runs)) > REFRESH_S
        ]
        grown = [f"the server grew by {slope(self.memory, 1):.1f} MiB/h"] if self._grew() else []
        return [*late, *slow, *grown, *sorted(set(self.wrong))]

    def _grew(self) -> bool:
        return telling(self.memory) and slope(self.memory, 1) > GROWTH_MB_H


def paths(paints: list[Paint]) -> list[str]:
    """The pages, in their order."""
    return list(dict.fromkeys(paint.path for paint in paints))


def header_s(paints: list[Paint], path: str) -> float:
    """Median time to the header of visits with a filled cache, s."""
    return statistics.median(p.header_s for p in paints if p.path == path and not p.cold)


def refresh_s(runs: list[Run]) -> float:
    """Server time of one refresh, s: all live parts of a page once, each by its median."""
    parts: dict[str, list[float]] = {}
    for run in runs:
        parts.setdefault(run.part, []).append(run.seconds)
    return sum(statistics.median(seconds) for seconds in parts.values())


def telling(memory: list[tuple[float, float, float]]) -> bool:
    """Whether memory was watched for long enough."""
    return bool(memory) and memory[-1][0] >= TELLING_S


def slope(memory: list[tuple[float, float, float]], column: int) -> float:
    """Growth by hour once caches are full: the median of slopes between points far apart (Theil-Sen)."""
    if len(memory) < 4:
        return 0.0
    points = [row for row in memory if row[0] >= SETTLED * memory[-1][0]]
    half = len(points) // 2
    slopes = [
        (b[column] - a[column]) / (b[0] - a[0])
        for a, b in zip(points, points[half:], strict=False)
        if b[0] > a[0]
    ]
    return statistics.median(slopes) * 3600 if slopes else 0.0


def text(found: Report) -> str:
    """Tables for people."""
    lines = [f"{found.vehicles:,} vehicles; times in ms", "", _row("page", *PAINT_HEAD)]
    lines += [_row(path, *_paint(found.paints, path)) for path in paths(found.paints)]
    for title, runs in (("one reader", found.alone), (f"{found.readers} readers", found.together)):
        lines += ["", f"server, {title}", _row("page", *SERVER_HEAD)]
        firsts, parts = by_path(runs, first=True), by_path(runs, first=False)
        lines += [_row(path, *_server(firsts[path], parts.get(path, []))) for path in firsts]
    lines += ["", "CPU of one reader, ms by refresh", _row("page", "dashboard", "database")]
    lines += [_row(path, *(f"{ms:.0f}" for ms in spent)) for path, spent in found.cpu_ms.items()]
    if found.memory:
        lines += ["", *_memory(found.memory)]
    missed = found.missed()
    return "\n".join([*lines, "", *(f"MISSED  {line}" for line in missed), "" if missed else "all aims met"])


PAINT_HEAD: Final = ("first cold", "first warm", "header cold", "header warm", "whole warm")
SERVER_HEAD: Final = (
    "first run",
    "KiB",
    "parts",
    "refresh",
    "part p50",
    "part p95",
    "part max",
    "KiB/refresh",
)


def _row(name: str, *cells: str) -> str:
    return f"{name:<38}" + "".join(f"{cell:>13}" for cell in cells)


def _ms(values: list[float]) -> str:
    return f"{1000 * statistics.median(values):.0f}" if values else "-"


def _paint(paints: list[Paint], path: str) -> list[str]:
    own = [p for p in paints if p.path == path]
    cold, warm = [p for p in own if p.cold], [p for p in own if not p.cold]
    return [
        _ms([p.first_s for p in cold if p.first_s is not None]),
        _ms([p.first_s for p in warm if p.first_s is not None]),
        _ms([p.header_s for p in cold]),
        _ms([p.header_s for p in warm]),
        _ms([p.whole_s for p in warm]),
    ]


def _server(firsts: list[Run], parts: list[Run]) -> list[str]:
    seconds = sorted(run.seconds for run in parts)
    names = {run.part for run in parts}
    sizes = {name: statistics.median(r.bytes for r in parts if r.part == name) for name in names}
    whole = [_ms([r.seconds for r in firsts]), f"{statistics.median(r.bytes for r in firsts) / 1024:.0f}"]
    if not seconds:
        return [*whole, "0", *["-"] * 5]
    p95 = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))]
    return [
        *whole,
        str(len(names)),
        f"{1000 * refresh_s(parts):.0f}",
        _ms(seconds),
        f"{1000 * p95:.0f}",
        f"{1000 * seconds[-1]:.0f}",
        f"{sum(sizes.values()) / 1024:.0f}",
    ]


def _memory(memory: list[tuple[float, float, float]]) -> list[str]:
    return [_memory_line(memory, column, name) for column, name in ((1, "server"), (2, "browser's heap"))]


def _memory_line(memory: list[tuple[float, float, float]], column: int, name: str) -> str:
    first, last = memory[0], memory[-1]
    line = f"{name}: {first[column]:.0f} -> {last[column]:.0f} MiB in {last[0] / 60:.0f} min"
    if not telling(memory):
        return line
    settled = [row[column] for row in memory if row[0] >= SETTLED * last[0]]
    between = f"{min(settled):.0f} to {max(settled):.0f} MiB"
    return f"{line}, {between} and {slope(memory, column):+.1f} MiB/h once settled"
