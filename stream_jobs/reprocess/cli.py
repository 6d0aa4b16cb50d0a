"""``odograph recompute``: a span of time made anew from the archive."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.settings.settings import Settings
    from stream_jobs.reprocess.plan import Span
    from stream_jobs.reprocess.runs import Counts, Run


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("recompute")(recompute)


def recompute(
    since: Annotated[str, typer.Option("--from", help="begin of the span, as 2026-11-20T08:00 (UTC)")],
    until: Annotated[str, typer.Option("--to", help="its end; cut back to what the stream is done with")],
    vehicle: Annotated[
        str | None,
        typer.Option(help="only this vehicle's windows, trips and alerts; road windows stay as they are"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="what was restated, as JSON")] = False,
) -> None:
    """Make windows, trips and alerts anew from the archive, with the transforms of the stream.

    Restated, under the next revision, is what is not stored just so: a second run changes nothing.
    One that was killed goes on where it was. The stream may run meanwhile.
    Exit 1: a file of the archive is damaged, or a service is away; 2: nothing closed or archived in the span.
    """
    from infra.clients.log import configure
    from infra.contract.errors import ConfigError
    from infra.settings.settings import load
    from infra.settings.values import moment_ms
    from stream_jobs.reprocess.plan import Span

    configure("recompute")
    span = Span(moment_ms(since, "--from"), moment_ms(until, "--to"), vehicle)
    if span.until_ms <= span.from_ms:
        raise ConfigError("recompute: --to is not after --from")
    run, counts = _run(load(), span)
    typer.echo(json.dumps(_told(run, counts)) if as_json else _page(span, run, counts))


def _run(settings: Settings, span: Span) -> tuple[Run, Counts]:
    import signal
    import threading

    from infra.settings.settings import endpoints
    from stream_jobs.app.session import spark_when_asked
    from stream_jobs.app.topic_writer import dead_lettering
    from stream_jobs.maintenance.lookups import write_vehicle_lookup
    from stream_jobs.reprocess import work
    from stream_jobs.reprocess.feed import Feeder

    terms, addresses = settings.recompute, endpoints(settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    database = dead_lettering(settings, addresses, "recompute", stop, terms.transaction_timeout_s)
    try:
        caught_up_ms = work.closed_ms(settings, addresses, database)
        closed = work.closed_span(settings, span, caught_up_ms)
        work.check_archive(settings, closed)
        write_vehicle_lookup(database, settings.paths.home)
        with spark_when_asked(settings, "recompute", terms.driver_mb) as session:
            feeder = Feeder(settings, session)
            tools = work.Tools(settings, database, addresses.db_owner_url, stop, feeder, _say)
            return work.recompute(tools, closed, caught_up_ms)
    finally:
        database.close()


def _say(done: int, of: int) -> None:
    typer.echo(f"slice {done} of {of}", err=True)


def _told(run: Run, counts: Counts) -> dict[str, object]:
    from stream_jobs.reprocess.runs import moment

    span = {"from": moment(run.span.from_ms).isoformat(), "to": moment(run.span.until_ms).isoformat()}
    return {"run": run.run_no, **span, "vehicle": run.span.vehicle_id, **asdict(counts)}


def _page(asked: Span, run: Run, counts: Counts) -> str:
    from stream_jobs.reprocess.runs import moment

    span = run.span
    lines = [
        f"run {run.run_no}: {moment(span.from_ms):%Y-%m-%d %H:%M:%S} .. "
        f"{moment(span.until_ms):%Y-%m-%d %H:%M:%S} UTC, {span.vehicle_id or 'all vehicles'}",
        f"restated   {counts.vehicle_windows} vehicle windows, {counts.place_windows} road windows, "
        f"{counts.journeys} trips, stops and events of {counts.vehicles} vehicles",
        f"alerts     {counts.alerts_added} added, {counts.alerts_changed} changed, "
        f"{counts.alerts_withdrawn} withdrawn",
        f"late       {counts.late_frames} frames taken in that nobody had before",
    ]
    if counts.unfounded:
        lines.append(
            f"unfounded  {counts.unfounded} stored windows have no frame in the archive: left as they are"
        )
    if span.until_ms < asked.until_ms:
        lines.append("what is later than this span is still open: the stream may add to it")
    return "\n".join(lines)
