"""The commands ``odograph edr table`` and ``odograph edr resend``."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

app = typer.Typer(no_args_is_help=True, help="Event data recorders: what triggers them, and their records.")


@app.command()
def table(
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
    from dataclasses import asdict

    import orjson

    from edge_simulator.edr import crash_table, recorder

    lines = crash_table.lines(crash_table.cases(recorder.PROFILES[profile], range(seeds)))
    head = (
        "type",
        "delta-V",
        "pulses",
        "wanted",
        "triggered",
        "peak g",
        "max km/h",
        "at ms",
        "air bag",
        "whole",
    )
    if json:
        sys.stdout.write(orjson.dumps([asdict(line) for line in lines]).decode() + "\n")
    else:
        sys.stdout.write(_row(head))
        for ln in lines:
            sys.stdout.write(
                _row((
                    ln.kind, ln.delta_v_kmh, ln.cases, ln.wanted, ln.triggered, ln.peak_g, ln.max_kmh,
                    ln.max_ms, ln.air_bags, ln.complete,
                ))
            )  # fmt: skip
    wrong = sum(line.wrong for line in lines) + sum(line.triggered - line.complete for line in lines)
    if wrong:
        sys.stderr.write(f"{wrong} pulses are not as they should be\n")
        raise typer.Exit(1)


@app.command()
def resend(
    run: Annotated[str, typer.Argument(help="a run's id or folder")],
    drain: Annotated[str, typer.Option(help="time for the PUBACKs")] = "15s",
) -> None:
    """Offer the crash records of a run again that the broker has not acknowledged.

    Their identities are those of the first time: what arrived already is a duplicate, and harmless.

    Exit codes: 0 all was acknowledged; 1 broker away or records without PUBACK; 2 no such run.
    """
    from edge_simulator.console import now_ms, say
    from edge_simulator.edr import crash_store
    from edge_simulator.sending.paho_publisher import PahoPublisher
    from infra.settings import settings
    from infra.settings.values import duration_ms

    in_force = settings.load()
    drain_s = duration_ms(drain, "--drain") / 1000
    kept = crash_store.unacked_of([crash_store.file_of(in_force.paths.home, run)], say)
    left = 0
    if kept:
        address = settings.endpoints(in_force)
        client = f"odograph-resend-{now_ms()}"
        with PahoPublisher(address.mqtt, [client]) as publisher:
            publisher.connect(deadline_s=5.0)
            crash_store.resend(publisher, in_force.mqtt.root, kept)
            publisher.drain(drain_s)
            marks = publisher.counts.acked_marks
            crash_store.note_acked(marks)
            left = len(kept) - len(marks)
    sys.stdout.write(f"offered {len(kept)}  acknowledged {len(kept) - left}\n")
    if left:
        raise typer.Exit(1)


def _row(cells: tuple[object, ...]) -> str:
    texts = ["-" if cell is None else str(cell) for cell in cells]
    return f"{texts[0]:<12}" + "".join(f"{text:>10}" for text in texts[1:]) + "\n"
