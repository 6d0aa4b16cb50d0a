"""Fences: circles and polygons, in the rule itself or in a YAML file beside the rules file."""

from __future__ import annotations

from typing import Final

from infra.settings.files import read_yaml
from stream_jobs.rules.entries import Entry
from stream_jobs.rules.kinds import Fence

POINTS_MAX: Final = 1000
FENCES_MAX: Final = 200
RADIUS_MAX_M: Final = 500_000.0


def load_fences(entry: Entry) -> tuple[Fence, ...]:
    """The fences of a rule: under `fences`, or in `fences_file`; raises ConfigError."""
    if ("fences" in entry) == ("fences_file" in entry):
        raise entry.wrong("fences", "or `fences_file` is wanted, one of them")
    key = "fences" if "fences" in entry else "fences_file"
    listed = entry.values["fences"] if key == "fences" else _from_file(entry)
    if not isinstance(listed, list) or not 1 <= len(listed) <= FENCES_MAX:
        raise entry.wrong(key, f"is not a list of 1 to {FENCES_MAX} fences")
    fences = tuple(_fence(entry, key, place, fence) for place, fence in enumerate(listed, start=1))
    if len({fence.name for fence in fences}) < len(fences):
        raise entry.wrong(key, "has a name twice")
    return fences


def _from_file(entry: Entry) -> object:
    name = entry.values["fences_file"]
    if not isinstance(name, str):
        raise entry.wrong("fences_file", f"{name!r} is not a file's name")
    return read_yaml(entry.folder / name, f"{entry.file}, rule {entry.name}: `fences_file`")


def _fence(entry: Entry, key: str, place: int, fence: object) -> Fence:
    if not isinstance(fence, dict) or not isinstance(fence.get("name"), str) or not fence["name"].strip():
        raise entry.wrong(key, f"fence {place} has no `name`")
    name = fence["name"].strip()
    shape = set(fence) - {"name"}
    if shape == {"lat_deg", "lon_deg", "radius_m"}:
        radius_m = fence["radius_m"]
        if type(radius_m) not in (int, float) or not 0 < radius_m <= RADIUS_MAX_M:
            raise entry.wrong(key, f"fence {name}: radius_m {radius_m!r} is not in 0..{RADIUS_MAX_M:g}")
        centre = _point(entry, key, name, (fence["lat_deg"], fence["lon_deg"]))
        return Fence(name, (centre,), float(radius_m))
    if shape == {"polygon"} and isinstance(fence["polygon"], list):
        points = tuple(_point(entry, key, name, point) for point in fence["polygon"])
        if not 3 <= len(points) <= POINTS_MAX:
            raise entry.wrong(key, f"fence {name}: a polygon has 3 to {POINTS_MAX} points")
        return Fence(name, points)
    raise entry.wrong(
        key,
        f"fence {name} is neither {{lat_deg, lon_deg, radius_m}} nor {{polygon}} of [lat, lon]",
    )


def _point(entry: Entry, key: str, name: str, point: object) -> tuple[float, float]:
    numbers = (
        isinstance(point, list | tuple) and len(point) == 2 and all(type(x) in (int, float) for x in point)
    )
    if not numbers or not (-90 <= point[0] <= 90 and -180 <= point[1] <= 180):  # type: ignore[index]
        raise entry.wrong(key, f"fence {name}: {point!r} is not [lat, lon] in degrees")
    return float(point[0]), float(point[1])  # type: ignore[index]
