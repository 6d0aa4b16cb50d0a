"""The roads of a simulated fleet into the service's database: the map, speeds by road, arrival times."""

from __future__ import annotations

from edge_simulator.motion.profiles import towns
from edge_simulator.town.roads import region
from infra.sql import queries


def store_roads(url: str, seed: int, place: tuple[float, float], profile: str, vehicles: int) -> int:
    """Put the roads of so many vehicles' towns at ``place`` (lat, lon in degrees) there; how many edges.

    They replace those of the same seed. Raises ServiceError.
    """
    net = region(seed, *place, towns(profile, vehicles))
    return queries.store_roads(url, f"city-{seed}", net.edges())
