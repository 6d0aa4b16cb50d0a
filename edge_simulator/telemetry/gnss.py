"""The satellite receivers: slow and white error, canyons of houses, jumps, tunnels; course held when slow.

Engineering figures: Gauss-Markov 2 m and 60 s, 0.5 m white, canyon 6-10 m, 1 % jumps of
20-60 m. NaN means "no fix" and becomes null on the wire.
"""

from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from edge_simulator.geo import Bools, Floats, Ints, metres_per_degree
from edge_simulator.town import streets
from edge_simulator.town.roads import RoadNetwork
from edge_simulator.wireless.settings import Amount, Positive, Share

HOLD_KMH = 3.0
REFRESH_S = 1.0  # how often the error's size follows the position: nobody leaves a canyon faster
RELOCK_TAU_S = 8.0  # after a tunnel the extra error fades with this time constant
MEAN_JUMP_S = 3.0
JUMP_S = (1.0, 5.0)


class GnssSettings(BaseModel, frozen=True, strict=True, extra="forbid"):
    """What the receivers suffer from; 0 turns a thing off."""

    sigma_m: Amount = 2.0
    tau_s: Positive = 60.0
    white_m: Amount = 0.5
    canyon_m: Amount = 8.0  # error between high houses, in the middle of its 6..10 m; 0: no canyons.
    canyon_radius_m: Amount = 1200.0  # within about this of the centre the houses are high; 0: nowhere
    jump_share: Annotated[Share, Field(le=0.5)] = 0.01  # share of fixes that a reflection throws off
    jump_min_m: Amount = 20.0
    jump_max_m: Amount = 60.0
    tunnels: Annotated[int, Field(ge=0)] = 4  # streets of a town underground, half motorway, half arterial
    relock_m: Amount = 12.0  # extra error of the first fix after a tunnel

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.jump_min_m > self.jump_max_m:
            raise ValueError(f"jump_min_m {self.jump_min_m:g} is more than jump_max_m {self.jump_max_m:g}")
        return self


def tunnels(net: RoadNetwork, count: int) -> Bools:
    """Whether each edge is in a tunnel, both directions, ``count`` streets a town; [n_edges].

    A town's longer main streets, motorway and arterial by turns; they follow from the network alone.
    """
    under, town = np.zeros(len(net.length_m), dtype=np.bool_), net.node_town[net.edge_from]
    for k in range(len(net.town_lat)):
        edges = np.flatnonzero(town == k)
        rng = np.random.default_rng(int(1000 * net.length_m[edges].sum()))
        kinds = []
        for road_class in (streets.MOTORWAY, streets.ARTERIAL):
            alike = edges[net.road_class[edges] == road_class][::2]
            kinds.append(rng.permutation(alike[net.length_m[alike] >= np.median(net.length_m[alike])]))
        deep = np.array(list(zip(*kinds, strict=False)), dtype=np.int64).ravel()[:count]
        under[deep] = under[deep ^ 1] = True
    return under


class Gnss:
    """A receiver per vehicle. ``rng`` makes the noise; arrays are [n_vehicles]."""

    def __init__(
        self, settings: GnssSettings, rng: np.random.Generator, heading_deg: Floats, net: RoadNetwork
    ) -> None:
        n, town = len(heading_deg), net.node_town[net.edge_from]
        self._set, self._rng = settings, rng
        self._town_lat, self._town_lon = net.town_lat[town], net.town_lon[town]  # of each edge
        # metres a degree: one figure does for errors of all towns
        self.north_m, self.east_m = map(float, metres_per_degree(np.float64(net.town_lat.mean())))
        self._error = rng.standard_normal((2, n))  # east and north, in units of the local sigma
        self._sigma_m: Floats = np.full(n, settings.sigma_m)
        self._relock_m = np.zeros(n)
        self._since_refresh_s = np.inf
        self._tunnel = tunnels(net, settings.tunnels)
        self._blind = np.empty(0, dtype=np.int64)
        self._course = heading_deg.copy()
        self._t_s = 0.0
        self._jumps = np.empty((4, 0))  # vehicle, metres east and north, until when (s)

    def fix(self, lat: Floats, lon: Floats, edge: Ints, h_s: float) -> tuple[Floats, Floats]:
        """Measured latitude and longitude, ``h_s`` after the last fix; NaN in a tunnel."""
        s = self._set
        self._blind = np.flatnonzero(self._tunnel[edge]) if s.tunnels else self._blind
        self._refresh(lat, lon, edge, h_s)
        keep = np.exp(-h_s / s.tau_s)
        noise = self._rng.standard_normal((4, len(lat)), dtype=np.float32)
        self._error = keep * self._error + np.sqrt(1 - keep**2) * noise[:2]
        east_m, north_m = self._sigma_m * self._error + s.white_m * noise[2:]
        if s.jump_share:
            self._jump(east_m, north_m, h_s)
        measured_lat, measured_lon = lat + north_m / self.north_m, lon + east_m / self.east_m
        measured_lat[self._blind] = measured_lon[self._blind] = np.nan
        return measured_lat, measured_lon

    def course(self, heading_deg: Floats, v_kmh: Floats, noise: Floats) -> Floats:
        """Course over ground: noisier when slow, held below 3 km/h, NaN without a fix."""
        measured = (heading_deg + noise * np.minimum(0.2 + 8.0 / np.maximum(v_kmh, 3.0), 2.0)) % 360.0
        self._course = np.where(v_kmh >= HOLD_KMH, measured, self._course)
        shown = self._course.copy() if len(self._blind) else self._course
        shown[self._blind] = np.nan
        return shown

    def _refresh(self, lat: Floats, lon: Floats, edge: Ints, h_s: float) -> None:
        """Let the size of the error follow the place, once a second."""
        self._since_refresh_s += h_s
        if self._since_refresh_s < REFRESH_S - 1e-9:
            return
        past_s = min(self._since_refresh_s, REFRESH_S)
        self._since_refresh_s = 0.0
        self._relock_m *= np.exp(-past_s / RELOCK_TAU_S)
        self._relock_m[self._blind] = self._set.relock_m
        east_m = (lon - self._town_lon[edge]) * self.east_m
        north_m = (lat - self._town_lat[edge]) * self.north_m
        self._sigma_m = open_sigma_m(self._set, east_m, north_m) + self._relock_m

    def _jump(self, east_m: Floats, north_m: Floats, h_s: float) -> None:
        """Throw some off for a few seconds: drawn by number, so that no jump costs next to nothing."""
        self._t_s += h_s
        n = len(east_m)
        count = self._rng.poisson(n * h_s * self._set.jump_share / MEAN_JUMP_S)
        if count:
            rows = self._rng.integers(0, n, count)
            far = self._rng.uniform(self._set.jump_min_m, self._set.jump_max_m, count)
            angle = self._rng.uniform(0, 2 * np.pi, count)
            # it began at some moment since the last fix; where fixes are rare it still shows in this one
            since = h_s * self._rng.random(count)
            until = self._t_s + np.maximum(self._rng.uniform(*JUMP_S, count) - since, 1e-3)
            begun = np.stack([rows, far * np.sin(angle), far * np.cos(angle), until])
            self._jumps = np.hstack([self._jumps, begun])
        if self._jumps.size:
            self._jumps = self._jumps[:, self._jumps[3] > self._t_s]
            vehicles = self._jumps[0].astype(np.int64)
            np.add.at(east_m, vehicles, self._jumps[1])
            np.add.at(north_m, vehicles, self._jumps[2])


def open_sigma_m(settings: GnssSettings, east_m: Floats, north_m: Floats) -> Floats:
    """Standard deviation of the slow error at a place (metres from the centre), m.

    Open sky: ``sigma_m``. In the centre the canyon's, 2 m more or less from block to block.
    """
    if settings.canyon_m <= settings.sigma_m or not settings.canyon_radius_m:
        return np.full(len(east_m), settings.sigma_m)
    dense = np.exp(-(((east_m**2 + north_m**2) / settings.canyon_radius_m**2) ** 2))
    blocks = 2.0 * np.sin(2 * np.pi * east_m / 310.0) * np.sin(2 * np.pi * north_m / 270.0)
    return settings.sigma_m + dense * (settings.canyon_m + blocks - settings.sigma_m)
