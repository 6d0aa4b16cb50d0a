"""Carries drills out: each on a site of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.contract.errors import ConfigError, OdographError
from infra.settings.settings import load
from infra.settings.values import duration_ms
from load_tests.drills.catalogue import CLUSTER, DRILLS, SINGLE_ATTACKS, Drill
from load_tests.drills.flow import Load
from load_tests.drills.site import Say, opened
from load_tests.drills.verdict import ENDS, Promise, Verdict


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; None is the drill's own."""

    rate: float | None = None
    duration: str | None = None
    seed: int = 1
    mutant: str | None = None
    keep: bool = False
    times: int | None = None


def listed() -> list[str]:
    """A line for each drill."""
    return [
        f"{drill.name:<4} {drill.title} ({drill.rate:g} frames/s for {drill.duration_s:g} s)"
        + (f"; {drill.times} times" if drill.times > 1 else "")
        + (f"; mutants: {', '.join(drill.mutants)}" if drill.mutants else "")
        for drill in DRILLS
    ]


def carried_out(name: str, wanted: Wanted, say: Say) -> Iterator[Verdict]:
    """The verdicts of one drill, of a group, or of all with each of their mutants; raises ConfigError.

    Of several, one that does not come to its end is a promise not kept, and the next one follows.
    """
    chosen = _chosen(name, wanted.mutant)
    for drill, mutant in chosen:
        with_defect = f" with the defect {mutant}" if mutant else ""
        say(f"{drill.name}: {drill.title}{with_defect}")
        begun_s = time.monotonic()
        try:
            verdict = _one(drill, mutant, wanted, say)
        except Exception as error:  # whatever it is, it did not show what it must
            if len(chosen) == 1:
                raise
            reason = str(error) if isinstance(error, OdographError) else f"{type(error).__name__}: {error}"
            verdict = Verdict(drill.name, (Promise(ENDS, False, reason),), {}, mutant)
        yield replace(verdict, figures={**verdict.figures, "took_s": round(time.monotonic() - begun_s)})


def _chosen(name: str, mutant: str | None) -> list[tuple[Drill, str | None]]:
    groups: dict[str, list[tuple[Drill, str | None]]] = {
        "all": [(drill, None) for drill in DRILLS],
        "cluster": [(drill, None) for drill in CLUSTER],
        "mutants": [(drill, each) for drill in DRILLS for each in drill.mutants],
    }
    if name in groups:
        if mutant is not None:
            raise ConfigError(f"--mutant {mutant}: it is put into one drill, not into {name}")
        return groups[name]
    found = [drill for drill in (*DRILLS, *SINGLE_ATTACKS) if drill.name == name]
    if not found:
        raise ConfigError(f"there is no drill {name}; there are {', '.join(d.name for d in DRILLS)}")
    if mutant is not None and mutant not in found[0].mutants:
        raise ConfigError(f"--mutant {mutant}: {name} is made to see {', '.join(found[0].mutants) or 'none'}")
    return [(found[0], mutant)]


def _one(drill: Drill, mutant: str | None, wanted: Wanted, say: Say) -> Verdict:
    seconds = drill.duration_s
    if wanted.duration is not None:
        seconds = duration_ms(wanted.duration, "--duration") / 1000
    size = Load(wanted.rate or drill.rate, seconds, wanted.seed, wanted.times or drill.times)
    name = drill.name.replace(":", "-")
    with opened(load(), name, say, wanted.keep, drill.disk, drill.profile, **drill.settings) as site:
        return drill.run(site, size, mutant)
