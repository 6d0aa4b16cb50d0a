"""The drill poison-2: the attacks in turn on one site, one verdict."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace

from load_tests.drills.poison.attack import Attack
from load_tests.drills.poison.table import ATTACKS
from load_tests.drills.site import Site
from load_tests.drills.verdict import ENDS, Promise, Verdict


def poison(site: Site, mutant: str | None = None, attacks: Sequence[Attack] = ATTACKS) -> Verdict:
    """The attacks in turn; with a mutant only the one that is made to see it.

    An attack that raises is a promise not kept, and the next one still runs.
    """
    tried = [attack for attack in attacks if mutant is None or mutant in attack.mutants]
    promises: list[Promise] = []
    took_s: dict[str, float] = {}
    for attack in tried:
        site.say(f"poison-2: {attack.name}: {attack.title}")
        began = time.monotonic()
        promises += _outcome(site, attack, mutant)
        took_s[attack.name] = round(time.monotonic() - began, 1)
    return Verdict("poison-2", tuple(promises), {"attacks": len(tried), "attacks_s": took_s}, mutant)


def _outcome(site: Site, attack: Attack, mutant: str | None) -> list[Promise]:
    """The promises of an attack, named after it; its programs have ended then."""
    found: list[Promise] = []
    try:
        with contextlib.ExitStack() as ending:
            ending.callback(site.end_programs)
            found.extend(attack.run(site, mutant))  # what it gave before it raises stays
        found = found or [Promise("says what must hold", False, "no promise")]
    except Exception as error:  # noqa: BLE001  whatever it is, the attack did not show what it must
        found.append(Promise(ENDS, False, f"{type(error).__name__}: {error}"))
    return [replace(promise, text=f"{attack.name}: {promise.text}") for promise in found]
