"""A picture of a simulated rush hour as the pipeline sees it: speed over free flow by edge, a map a moment.

The run's frames go through the stage of the stream (matching included); five-minute sums are judged by the
bands of the views. Free flow is the 85th percentile of the run's own five-minute speeds of an edge.

Run: python -m load_tests.congestion_picture --run DAY --at 07:00 --at 08:15 --png FILE
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image, ImageDraw

from edge_simulator.town.roads import region
from infra.settings.sections import Roads
from load_tests.eta_grade import LAT_DEG, LON_DEG, Told, told
from stream_jobs.frames.arrays import Floats
from stream_jobs.roads.network import RoadLookup, RoadNetwork, network_of, save

INTERVAL_MS: Final = 300_000
DAY_MS: Final = 86_400_000
SIDE_PX: Final = 900
BAR_PX: Final = 40
BANDS: Final = ((0.9, (26, 152, 80)), (0.7, (166, 217, 106)), (0.5, (253, 174, 97)), (0.0, (215, 48, 39)))
NAMES: Final = ("free > 0.9", "slow > 0.7", "congested >= 0.5", "severe")
UNSEEN: Final = (225, 225, 225)
LEAST_SPEEDS: Final = 3


def ratios(net: RoadNetwork, found: Told) -> dict[int, Floats]:
    """Speed over free flow of each edge by the begin of five minutes; nan where nobody was."""
    metres: dict[int, Floats] = defaultdict(lambda: np.zeros(len(net.edge_id)))
    seconds: dict[int, Floats] = defaultdict(lambda: np.zeros(len(net.edge_id)))
    columns = (found.sums[name].to_pylist() for name in ("edge", "start_ms", "m", "s"))
    for edge, start, m, s in zip(*columns, strict=True):
        metres[start // INTERVAL_MS * INTERVAL_MS][edge] += m
        seconds[start // INTERVAL_MS * INTERVAL_MS][edge] += s
    starts = sorted(metres)
    table = np.full((len(starts), len(net.edge_id)), np.nan)
    for k, start in enumerate(starts):
        np.divide(3.6 * metres[start], seconds[start], out=table[k], where=seconds[start] > 0)
    told_often = (~np.isnan(table)).sum(axis=0) >= LEAST_SPEEDS
    free = np.full(table.shape[1], np.nan)
    free[told_often] = np.nanpercentile(table[:, told_often], 85, axis=0)
    return {start: table[k] / free for k, start in enumerate(starts)}


def draw(net: RoadNetwork, ratio: Floats, title: str) -> Image.Image:
    """One map; of the two directions of a street each is its own side."""
    image = Image.new("RGB", (SIDE_PX, SIDE_PX + BAR_PX), "white")
    pen = ImageDraw.Draw(image)
    east = np.cos(np.radians(net.lat_deg.mean()))
    x, y = net.lon_deg * east, -net.lat_deg
    span = max(np.ptp(x), np.ptp(y)) * 1.04
    px = (x - x.min()) / span * SIDE_PX + 15
    py = (y - y.min()) / span * SIDE_PX + BAR_PX
    for edge in np.argsort(-np.nan_to_num(ratio, nan=9.0)):
        rows = slice(net.first_point[edge], net.first_point[edge + 1])
        dx, dy = px[rows][-1] - px[rows][0], py[rows][-1] - py[rows][0]
        length = max(float(np.hypot(dx, dy)), 1e-6)
        line = list(zip(px[rows] - 1.5 * dy / length, py[rows] + 1.5 * dx / length, strict=True))
        known = not np.isnan(ratio[edge])
        colour = next(c for low, c in BANDS if ratio[edge] > low or low == 0.0) if known else UNSEEN
        pen.line([(float(a), float(b)) for a, b in line], fill=colour, width=3 if known else 1)
    pen.text((10, 12), title, fill="black")
    for k, (name, (_, colour)) in enumerate(zip(NAMES, BANDS, strict=True)):
        pen.rectangle((300 + 140 * k, 12, 316 + 140 * k, 24), fill=colour)
        pen.text((322 + 140 * k, 12), name, fill="black")
    return image


def main() -> None:
    """Draw the maps side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--at", action="append", required=True, help="time of day of the run, UTC, as 08:15")
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    town = region(arguments.seed, LAT_DEG, LON_DEG, 1)
    net = network_of(1, [(e, c, v, m, [[x, y] for y, x in path]) for e, c, v, m, path in town.edges()])
    with tempfile.TemporaryDirectory() as scratch:
        save(net, Path(scratch) / "roads.npz")
        found = ratios(net, told(arguments.run, RoadLookup(Path(scratch), Roads())))
    maps = []
    for at in arguments.at:
        hour, minute = (int(part) for part in at.split(":"))
        wanted = (hour * 60 + minute) * 60_000
        start = min(found, key=lambda ms: abs(ms % DAY_MS - wanted))
        maps.append(draw(net, found[start], f"{at} UTC, five minutes"))
    whole = Image.new("RGB", (SIDE_PX * len(maps), SIDE_PX + BAR_PX), "white")
    for k, image in enumerate(maps):
        whole.paste(image, (SIDE_PX * k, 0))
    whole.save(arguments.png, optimize=True)


if __name__ == "__main__":
    main()
