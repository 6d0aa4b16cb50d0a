"""What counts as a hit: ``hits.yaml``, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from infra.contract.errors import ConfigError
from infra.settings.files import read_yaml

SHIPPED: Final = Path(__file__).with_name("hits.yaml")
_TOP: Final = ("slack_s", "trips", "harsh", "detectors", "faults", "unjudged")
_DETECTOR: Final = {"rules", "finds"}
_FAULT: Final = {
    "road_s", "engine_s", "warm_s", "parked_s", "wait_s", "before_s", "after_s", "brings", "least",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Detector:
    """Alert rules that find the same faults. ``rules`` are names or patterns."""

    id: str
    rules: Sequence[str]
    finds: Sequence[str]


@dataclass(frozen=True, slots=True)
class Terms:
    """When a fault has to be found: ``road_s`` under way, ``engine_s`` with the engine running, ``warm_s``
    with a warm one, ``parked_s`` parked and ``wait_s`` in all after it, ``before_s`` under way before it, s.

    Alarms count up to ``after_s`` after its end. ``brings``: detectors that its symptoms may raise.
    ``least``: details that must reach a figure, else the threshold was not crossed.
    """

    road_s: float = 0.0
    engine_s: float = 0.0
    warm_s: float = 0.0
    parked_s: float = 0.0
    wait_s: float = 0.0
    before_s: float = 0.0
    after_s: float = 60.0
    brings: Sequence[str] = ()
    least: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definition:
    """The whole file. ``slack_s``: how far a device's clock may be off."""

    slack_s: float
    detectors: Sequence[Detector]
    faults: Mapping[str, Terms]
    unjudged: Sequence[str]
    """Rules that truth says nothing about."""
    trip_overlap: float
    trip_tolerance_s: float
    trip_stop_s: float
    trip_parked_s: float
    trip_least_m: float
    harsh_within_s: float
    harsh_accuracy_g: float
    """A peak so near to its threshold is on either side of it by chance of the instrument."""

    def detector_of(self, rule: str) -> str | None:
        """The first detector that has the rule; None where it is not judged."""
        for detector in self.detectors:
            if any(fnmatchcase(rule, pattern) for pattern in detector.rules):
                return detector.id
        return None

    def known(self, rule: str) -> bool:
        """Whether the file says anything about a rule."""
        spared = any(fnmatchcase(rule, pattern) for pattern in self.unjudged)
        return spared or self.detector_of(rule) is not None


def load(path: Path = SHIPPED) -> Definition:
    """Read a file; raises ConfigError naming what is wrong."""
    document = read_yaml(path, "definition of the score")
    if not isinstance(document, dict) or set(document) != set(_TOP):
        raise ConfigError(f"{path}: expected the keys {', '.join(_TOP)}")
    try:
        found = _definition(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {type(error).__name__}: {error}") from error
    _refuse_unknown(path, found)
    return found


def _definition(document: Mapping[str, Any]) -> Definition:
    trips, harsh = document["trips"], document["harsh"]
    return Definition(
        slack_s=float(document["slack_s"]),
        detectors=tuple(_detector(name, entry) for name, entry in document["detectors"].items()),
        faults={name: _terms(name, entry or {}) for name, entry in document["faults"].items()},
        unjudged=tuple(document["unjudged"]),
        trip_overlap=float(trips["overlap"]),
        trip_tolerance_s=float(trips["tolerance_s"]),
        trip_stop_s=float(trips["stop_s"]),
        trip_parked_s=float(trips["parked_s"]),
        trip_least_m=float(trips["least_m"]),
        harsh_within_s=float(harsh["within_s"]),
        harsh_accuracy_g=float(harsh["accuracy_g"]),
    )


def _detector(name: str, entry: Mapping[str, Any]) -> Detector:
    if set(entry) != _DETECTOR:
        raise ValueError(f"detector {name} has {', '.join(entry)}; wanted: rules, finds")
    return Detector(name, tuple(entry["rules"]), tuple(entry["finds"]))


def _terms(name: str, entry: Mapping[str, Any]) -> Terms:
    unknown = set(entry) - _FAULT
    if unknown:
        raise ValueError(f"fault {name}: unknown {', '.join(sorted(unknown))}")
    return Terms(**entry)


def _refuse_unknown(path: Path, found: Definition) -> None:
    """Every fault that a detector finds, and every detector that a fault brings, must be there."""
    detectors = {detector.id for detector in found.detectors}
    wrong = [f for d in found.detectors for f in d.finds if f not in found.faults]
    wrong += [d for terms in found.faults.values() for d in terms.brings if d not in detectors]
    if wrong:
        raise ConfigError(f"{path}: no such fault or detector: {', '.join(sorted(set(wrong)))}")
