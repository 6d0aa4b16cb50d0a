"""A simulated day of one town's traffic: who is under way, how fast, how long trips take beside free roads.

Nothing is painted on: the figures are measured from the vehicles' motion. Prints one JSON object for each
ten minutes and one at the end, and draws two pictures where asked.

    python -m load_tests.rush_hour --vehicles 8000 --step-ms 500 --png DIR
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from edge_simulator.geo import Floats
from edge_simulator.motion.agenda import Agenda
from edge_simulator.motion.fleet import Fleet
from edge_simulator.motion.town_day import Day
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork, region
from edge_simulator.vehicle import vehicles

BIN_S = 600
SAMPLE_S = 5.0
STANDING_MPS = 0.3
WIDTH, HEIGHT, MARGIN = 1300, 760, 70
COLOURS = ((26, 152, 80), (166, 217, 106), (253, 174, 97), (215, 48, 39))
"""Free, slow, congested, severe: speed ratio above 0.9, 0.7, 0.5, below."""


@dataclass(slots=True)
class Tally:
    """Vehicle-seconds and metres driven on each edge, [n_bins, n_edges], and standing vehicle-seconds."""

    spent_s: Floats
    driven_m: Floats
    standing_s: Floats


def simulate(fleet: Fleet, step_s: float, hours: float) -> Tally:
    """Run the fleet and look at it every few seconds."""
    bins, edges = int(np.ceil(hours * 3600 / BIN_S)), len(fleet.net.length_m)
    tally = Tally(np.zeros((bins, edges)), np.zeros((bins, edges)), np.zeros(bins))
    every = max(1, round(SAMPLE_S / step_s))
    for k in range(int(hours * 3600 / step_s)):
        fleet.step(step_s)
        if k % every == 0:
            at, st = min(int(k * step_s / BIN_S), bins - 1), fleet.state
            on = np.flatnonzero(~st.parked)
            seen_s = every * step_s
            tally.spent_s[at] += np.bincount(st.edge[on], minlength=edges) * seen_s
            tally.driven_m[at] += np.bincount(st.edge[on], weights=st.v[on], minlength=edges) * seen_s
            tally.standing_s[at] += (st.v[on] < STANDING_MPS).sum() * seen_s
    return tally


def rows(net: RoadNetwork, tally: Tally, begins_at_s: float) -> list[dict[str, float]]:
    """One row for each bin: vehicles under way, mean speed, travel time index, share standing."""
    free_s = tally.driven_m * (net.drive_s / net.length_m)
    found = []
    for k in range(len(tally.spent_s)):
        spent = tally.spent_s[k].sum()
        found.append({
            "hour": round((begins_at_s + (k + 0.5) * BIN_S) / 3600, 2),
            "under_way": round(spent / BIN_S, 1),
            "speed_kmh": round(3.6 * tally.driven_m[k].sum() / max(spent, 1e-9), 2),
            "travel_time_index": round(spent / max(free_s[k].sum(), 1e-9), 3),
            "standing": round(tally.standing_s[k] / max(spent, 1e-9), 3),
        })  # fmt: skip
    return found


def chart(table: list[dict[str, float]], path: Path) -> None:
    """Vehicles under way, mean speed and travel time index over the day, one panel each."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(image)
    hours = [row["hour"] for row in table]
    left, right = hours[0], hours[-1]
    panel = (HEIGHT - 2 * MARGIN) / 3
    names = (("under_way", (40, 80, 160)), ("speed_kmh", (26, 120, 80)), ("travel_time_index", (200, 60, 40)))
    for index, (name, colour) in enumerate(names):
        values = [row[name] for row in table]
        low, high = (0.0 if name == "under_way" else min(values) * 0.95), max(values) * 1.05
        top = MARGIN + index * panel
        bottom = top + panel - 34
        across = [MARGIN + (h - left) / max(right - left, 1e-9) * (WIDTH - 2 * MARGIN) for h in hours]
        points = [
            (x, bottom - (v - low) / (high - low) * (bottom - top))
            for x, v in zip(across, values, strict=True)
        ]
        draw.rectangle((MARGIN, top, WIDTH - MARGIN, bottom), outline=(200, 200, 200))
        draw.text((MARGIN + 6, top + 4), name.replace("_", " "), fill=colour)
        for share in (0.0, 0.5, 1.0):
            draw.text(
                (12, bottom - share * (bottom - top) - 6), f"{low + share * (high - low):.3g}", fill="black"
            )
        draw.line(points, fill=colour, width=3)
        for hour in range(int(np.ceil(left)), int(right) + 1, 2):
            x = MARGIN + (hour - left) / max(right - left, 1e-9) * (WIDTH - 2 * MARGIN)
            draw.line((x, top, x, bottom), fill=(230, 230, 230))
            draw.text((x - 8, bottom + 4), f"{hour % 24:02d}h", fill="black")
    image.save(path)


def town_map(
    net: RoadNetwork, tally: Tally, begins_at_s: float, hours: tuple[float, ...], path: Path
) -> None:
    """The streets at some hours, coloured by measured speed beside free flow; grey where nobody drove."""
    size = WIDTH // 2
    image = Image.new("RGB", (size * len(hours), size + 30), "white")
    draw = ImageDraw.Draw(image)
    lat, lon = net.point_lat, net.point_lon
    scale = (size - 30) / max(np.ptp(lat), np.ptp(lon) * 0.67)
    for index, hour in enumerate(hours):
        first = int((hour * 3600 - begins_at_s) / BIN_S)
        spent, driven = (
            tally.spent_s[first : first + 3].sum(axis=0),
            tally.driven_m[first : first + 3].sum(axis=0),
        )
        ratio = driven / np.maximum(spent, 1e-9) * net.drive_s / net.length_m
        x = index * size + 15 + (lon - lon.min()) * 0.67 * scale
        y = size - 15 - (lat - lat.min()) * scale
        for edge in np.argsort(-np.where(spent > 0, ratio, 9.0)).tolist():
            colour = (222, 222, 222)
            if spent[edge] >= 60:
                colour = COLOURS[int(np.searchsorted([-0.9, -0.7, -0.5], -ratio[edge]))]
            at = slice(edge * streets.POINTS, (edge + 1) * streets.POINTS)
            draw.line(list(zip(x[at].tolist(), y[at].tolist(), strict=True)), fill=colour,
                      width=3 if net.road_class[edge] < streets.COLLECTOR else 2)  # fmt: skip
        draw.text((index * size + 20, size), f"{hour:05.2f} h to {hour + 0.5:05.2f} h", fill="black")
    image.save(path)


def main() -> None:
    """Read the options, simulate, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--vehicles", type=int, default=8000)
    parser.add_argument("--step-ms", type=int, default=500)
    parser.add_argument("--from-hour", type=float, default=3.0)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--weekday", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--map-hours", type=float, nargs="*", default=[7.75, 11.0, 17.0])
    parser.add_argument("--png", type=Path)
    args = parser.parse_args()
    begun = time.process_time()
    rng = np.random.default_rng(args.seed)
    net = region(args.seed, 48.137, 11.575, 1)
    specs = vehicles.Specs(vehicles.draw(rng, args.vehicles))
    agenda: Agenda = Day(net, specs, rng, args.from_hour * 3600, args.weekday)
    fleet = Fleet(net, specs, rng, agenda)
    tally = simulate(fleet, args.step_ms / 1000, args.hours)
    table = rows(net, tally, args.from_hour * 3600)
    for row in table:
        print(json.dumps(row))
    spent = time.process_time() - begun
    longest_s = round(float(fleet.state.waited_s.max()), 1)
    summary = {"vehicles": args.vehicles, "step_ms": args.step_ms, "hours": args.hours,
                      "cpu_s": round(spent, 1), "longest_wait_s": longest_s}  # fmt: skip
    print(json.dumps(summary))
    if args.png:
        args.png.mkdir(parents=True, exist_ok=True)
        chart(table, args.png / "day.png")
        inside = [h for h in args.map_hours if args.from_hour <= h < args.from_hour + args.hours]
        town_map(net, tally, args.from_hour * 3600, tuple(inside), args.png / "town.png")


if __name__ == "__main__":
    main()
