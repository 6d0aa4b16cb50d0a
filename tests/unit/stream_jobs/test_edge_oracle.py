"""Which edge a sample is on: the job's arrays against every edge, one sample at a time."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from infra.settings import sections
from load_tests.oracle import Roads, Sample, edge_of
from stream_jobs.roads.network import index_of, match, network_of
from tests.support_frames import TOWN

PATHS = {edge: path for edge, _, _, _, path in TOWN}
ROADS = Roads(3, PATHS)


def sample(lat: float, lon: float, heading: float | None, *, on: int | None = 1) -> Sample:
    values = {
        "ignition_on": on, "lat_deg": round(lat * 1e6), "lon_deg": round(lon * 1e6), "speed_kmh": 300,
        "heading_deg": None if heading is None else round(heading * 10),
    }  # fmt: skip
    return Sample(0, 100, True, False, 0, values, (1, 1))


@pytest.mark.parametrize(
    ("lat", "lon", "heading", "edge"),
    [
        (48.12, 11.5202, 0.0, 3),
        (48.12, 11.5202, 190.0, 4),
        (48.12, 11.5202, 90.0, -2),  # across it
        (48.12, 11.5208, 0.0, -2),  # 45 m away
        (48.12, 11.5202, None, -1),
        (48.130033, 11.51, 90.0, 5),
        (48.130088, 11.51, 90.0, -1),  # half way between two
        (48.130143, 11.51, 90.0, 6),
        (48.130033, 11.51, 270.0, -2),  # against a one-way street
        (48.125, 11.505, None, -1),  # where no street is, but no course either
    ],
)
def test_the_definition_by_example(lat: float, lon: float, heading: float | None, edge: int) -> None:
    assert edge_of(sample(lat, lon, heading), ROADS) == edge


def test_parked_or_without_a_speed_no_sample_counts() -> None:
    assert edge_of(sample(48.12, 11.52, 0.0, on=0), ROADS) is None
    assert edge_of(sample(48.12, 11.52, 0.0, on=None), ROADS) is None


def test_the_job_finds_the_same_edges_near_streets_crossings_and_bends() -> None:
    rng = random.Random(5)
    near = []
    for _ in range(4000):
        lat, lon = rng.choice(rng.choice(list(PATHS.values())))
        across, along = rng.gauss(0, 0.0002), rng.gauss(0, 0.0003)
        near.append((lat + across, lon + along, rng.choice([None, rng.uniform(0, 359.9)])))
    found = [edge_of(sample(*each), ROADS) for each in near]
    rows = [(edge, kind, kmh, m, [[lon, lat] for lat, lon in path]) for edge, kind, kmh, m, path in TOWN]
    index = index_of(network_of(3, rows), sections.Roads())
    lat, lon = (np.array([round(each[k] * 1e6) / 1e6 for each in near]) for k in (0, 1))
    heading = np.array([0.0 if each[2] is None else round(each[2] * 10) / 10 for each in near])
    place = match(index, lat, lon, heading, np.array([each[2] is not None for each in near]))
    assert np.where(place >= 0, index.edge_id[place], place).tolist() == found
    assert set(found) == {-2, -1, 1, 2, 3, 4, 5, 6, 7}
    assert min(Counter(found).values()) > 20
