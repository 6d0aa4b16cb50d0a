"""The commands ``odograph bench``, ``cycles``, ``drill``, ``score`` and ``edr table``."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from edge_simulator.cli import edr
    from load_tests.drills import cli as drills
    from load_tests.score import cli as score

    app.command()(bench)
    app.command()(cycles)
    edr.command("table")(edr_table)
    drills.register(app)
    score.register(app)


def cycles(
    model: Annotated[list[str] | None, typer.Option(help="only this model; repeatable")] = None,
    cycle: Annotated[list[str] | None, typer.Option(help="only this cycle; repeatable")] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line on stdout")] = False,
) -> None:
    """Drive the simulator's vehicle models along published cycles and compare.

    For each model and cycle: distance and mean speed beside the cycle's own, consumption beside its reference
    (10 %) or a plausible band; then fuel at idle and how fast a cold engine warms up.

    Exit codes: 0 all as it should be; 1 a figure is out of its limits; 2 no such model or cycle.
    """
    from load_tests.cycles import checked

    if not checked(model, cycle, json):
        raise typer.Exit(1)


def edr_table(
    profile: Annotated[
        Literal["us563_2006", "us563_2024"], typer.Option(help="what the recorder holds")
    ] = "us563_2024",
    seeds: Annotated[int, typer.Option(min=1, help="pulses of each type and delta-V")] = 5,
    json: Annotated[bool, typer.Option("--json", help="the table as JSON, a line an object")] = False,
) -> None:
    """Put crash pulses of every type and delta-V, and knocks that are no crash, to a recorder.

    ``wanted`` pulses change the speed by 8 km/h within 150 ms or fire a restraint. ``max`` is the recorded
    delta-V on the pulse's own axis.

    Exit codes: 0 all as it should be; 1 a wanted pulse did not trigger, another did, a record is not whole.
    """
    from dataclasses import astuple

    import orjson

    from infra.clients.tables import aligned
    from infra.contract.messages import PROFILES
    from load_tests import crash_table

    lines = crash_table.table(PROFILES[profile], range(seeds))
    heads = ("type", "delta-V", "pulses", "wanted", "triggered", "wrong", "peak g", "max km/h", "at ms",
             "air bag", "whole")  # fmt: skip
    text = orjson.dumps(lines).decode() if json else aligned(map(astuple, lines), heads)
    sys.stdout.write(text + "\n")
    wrong = sum(line.wrong for line in lines) + sum(line.triggered - line.complete for line in lines)
    if wrong:
        sys.stderr.write(f"{wrong} pulses are not as they should be\n")
        raise typer.Exit(1)


def bench(
    find_max: Annotated[
        bool, typer.Option("--find-max", help="find the highest rate whose lag is flat")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(min=1, help="frames/s of the whole fleet", show_default="500")
    ] = None,
    vehicles: Annotated[
        int | None,
        typer.Option("-c", "--vehicles", help="vehicles", show_default="as many as frames/s: 10 Hz each"),
    ] = None,
    duration: Annotated[str, typer.Option(help="measured time of a --rate, as 90s, 5m")] = "2m",
    confirm: Annotated[str, typer.Option(help="time that the rate of --find-max must hold")] = "5m",
    warm_up: Annotated[str, typer.Option(help="load before the first figure: Java compiles")] = "60s",
    first: Annotated[
        float, typer.Option("--from", min=50, help="first rate of --find-max, frames/s")
    ] = 1000.0,
    highest: Annotated[
        float, typer.Option("--to", min=50, help="highest rate of --find-max, frames/s")
    ] = 20_000.0,
    soak: Annotated[
        str | None, typer.Option(help="then run so long at --soak-share; memory must stay flat")
    ] = None,
    soak_share: Annotated[
        float | None,
        typer.Option(min=0.01, max=1, help="of the sustained rate", show_default="1 with --rate, else 0.7"),
    ] = None,
    at_most: Annotated[str, typer.Option(help="--find-max ends by then, the soak not counted")] = "14m",
    seed: Annotated[int, typer.Option(min=0, help="seed of the fleet")] = 1,
    here: Annotated[
        bool,
        typer.Option(
            "--here", help="in the home in force (a running `odograph up` is used), not a fresh one"
        ),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="keep the fresh home: logs, data")] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="without, then with certificates on every hop; both on the card")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output")] = False,
) -> None:
    """Load the whole pipeline, open loop, and print its capacity card.

    Exit 1 where the figures do not hold: the lag grew, the simulator could not keep its rate, the ledger does
    not balance, memory grew in a soak, or with --secure a frame costs more than 1.3 times the CPU. The card
    is kept in <home>/bench as JSON too.
    """
    from contextlib import nullcontext
    from dataclasses import replace

    from infra.contract.errors import ConfigError
    from infra.settings.settings import load
    from infra.settings.values import duration_ms
    from load_tests.bench import card as cards
    from load_tests.bench import home, run

    if find_max and rate is not None:
        raise ConfigError("--find-max and --rate exclude each other: give one of them")
    if secure and here:
        raise ConfigError("--secure makes two fresh homes: leave --here out")

    def seconds(text: str, option: str) -> float:
        return duration_ms(text, option) / 1000

    wanted = run.Wanted(
        rate=None if find_max else rate or 500.0,
        vehicles=vehicles,
        seed=seed,
        duration_s=seconds(confirm, "--confirm") if find_max else seconds(duration, "--duration"),
        warm_up_s=seconds(warm_up, "--warm-up"),
        first=first,
        highest=highest,
        soak_s=0.0 if soak is None else seconds(soak, "--soak"),
        soak_share=soak_share or (0.7 if find_max else 1.0),
        at_most_s=seconds(at_most, "--at-most"),
        command=" ".join(["odograph", *sys.argv[1:]]),
    )
    in_force, made = load(), list[cards.Card]()
    for kind in (False, True) if secure else (None,):
        with nullcontext(in_force) if here else home.own_home(keep, kind) as settings:
            made.append(run.bench(settings, wanted, lambda text: typer.echo(text, err=True)))
    card = replace(made[-1], beside=made[0]) if secure else made[0]
    path = home.save(in_force.paths.home, cards.as_json(card))
    typer.echo(path.read_text() if as_json else cards.text(card))
    typer.echo(f"kept in {path}", err=True)
    if not card.good:
        raise typer.Exit(1)
