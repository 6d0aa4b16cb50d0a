"""The commands ``odograph bridge``, ``downlink``, ``notify``, ``undelivered`` and ``dead-letters``."""

import sys
import time
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from infra.clients.log import configure
from infra.clients.tables import aligned
from infra.contract.errors import ConfigError, ServiceError
from infra.contract.messages import Severity
from infra.settings import settings
from infra.settings.sections import Bridge
from infra.settings.values import duration_ms, moment_ms

if TYPE_CHECKING:
    from bridge.dead_letters.work import DeadLetters

Json = Annotated[bool, Option("--json", help="for machines: JSON on standard output")]
Reason = Annotated[str | None, Option("--reason", help="only this reason, as bad_json")]
Vehicle = Annotated[str | None, Option("--vehicle", help="only this vehicle id")]
Since = Annotated[str | None, Option("--since", help="received since: 10m, 7d ago; or 2026-11-20T08:00, UTC")]

dead_letters = typer.Typer(no_args_is_help=True, help="Messages not understood: list, show, send in again.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    named = {f"ODOGRAPH_BRIDGE_{key.upper()}": field for key, field in Bridge.model_fields.items()}
    words = "\b\n" + "\n".join(f"  {k:40} {f.description} ({f.default})" for k, f in named.items())
    app.command(help=(getdoc(bridge) or "").format(settings=words))(bridge)
    for command in (downlink, notify, undelivered):
        app.command()(command)
    app.add_typer(dead_letters, name="dead-letters")


def bridge(
    shard: Annotated[
        int | None, Option(min=1, help="which of several bridges it is: names its log and port")
    ] = None,
    guarantee: Annotated[str | None, Option(help="at-least-once (the default) or at-most-once")] = None,
    prepare: Annotated[bool, Option("--prepare", help="only make the sessions: they fill")] = False,
    retire: Annotated[
        bool,
        Option("--retire", help="carry over what the broker holds for stopped bridges, end the sessions"),
    ] = False,
) -> None:
    """Carry MQTT messages to Kafka, in the foreground, until Ctrl-C or SIGTERM.

    Each message is acknowledged to the broker only when Kafka has stored it. What cannot be understood
    goes to the topic dead-letter with its reason. On SIGTERM what was read is finished first.

    Settings (environment, then .odograph.toml, then default):

    {settings}

    Exit codes: 0 all that was read is stored; 1 some of it is not (it comes again) or a lane failed;
    2 a setting is wrong.
    """
    from bridge.uplink import service

    configure("bridge")
    if retire and prepare:
        raise ConfigError("--prepare makes sessions, --retire ends them: one of them")
    options = {"shard": shard, "guarantee": guarantee}
    in_force = settings.load(bridge={key: value for key, value in options.items() if value is not None})
    if prepare and in_force.bridge.guarantee == "at-most-once":
        raise ConfigError("--prepare makes sessions, which at-most-once does not use")
    addresses = settings.endpoints(in_force, ("mqtt_host", "kafka_bootstrap"), "bridge")
    work = service.prepare if prepare else service.retire if retire else service.run
    raise typer.Exit(work(in_force, addresses))


def downlink() -> None:
    """Carry alerts from Kafka to the vehicles (MQTT) and to webhooks (HTTP), until Ctrl-C or SIGTERM.

    Each alert goes to <root>/<vehicle>/alert at QoS 1 and to every webhook of the file at least once; each
    destination has its own place in the log. The first start begins with what comes then.

    Settings: ODOGRAPH_DOWNLINK_WEBHOOKS (TOML file), ODOGRAPH_DOWNLINK_HTTP_PORT; see odograph config.

    Exit codes: 0 ended as asked; 2 a setting or the file of webhooks is wrong.
    """
    from bridge.downlink import service

    configure("downlink")
    in_force = settings.load()
    addresses = settings.endpoints(in_force, ("mqtt_host", "kafka_bootstrap"), "downlink")
    raise typer.Exit(service.run(in_force, addresses))


def notify(
    text: Annotated[str, Argument(help="what to say, at most 1000 characters")],
    severity: Annotated[Severity, Option(help="how severe")] = "WARNING",
    vehicle: Annotated[list[str] | None, Option(help="VIN, may be given again; none: all vehicles")] = None,
    valid: Annotated[str, Option(help="how long the broker holds it for vehicles that are away")] = "15m",
    keep: Annotated[bool, Option("--keep", help="also for vehicles that come later (retained)")] = False,
) -> None:
    """Publish a notice to all vehicles (<root>/all/notice) or to some (<root>/<VIN>/notice).

    A kept notice replaces the one kept before. Exit codes: 0 the broker has it; 1 it has not; 2 wrong use.
    """
    from bridge.downlink.vehicles import notify as publish
    from infra.sql import queries

    in_force, valid_s = settings.load(), -(-duration_ms(valid, "--valid") // 1000)
    where = settings.endpoints(in_force, ("mqtt_host",))
    sent = publish(in_force, where, text, severity, vehicle or (), valid_s, keep)
    typer.echo(f"notice {sent} published")
    told: list[str | None] = [*vehicle] if vehicle else [None]
    try:
        for each in told if where.db_dispatch_url else ():
            queries.note(where.db_dispatch_url, "notice sent", each, f"{sent}: {severity}: {text}")
    except ServiceError as error:  # it is out: whoever took this for a failure would send it twice
        typer.echo(f"the notice is not in the audit log: {error}", err=True)


def undelivered(
    limit: Annotated[int, Option(min=1, help="how many, the newest")] = 20, as_json: Json = False
) -> None:
    """List the alerts that a destination did not take, oldest first: they are kept for 30 days.

    Exit codes: 0 listed; 1 Kafka is away.
    """
    from orjson import dumps

    from bridge.downlink import feed

    in_force = settings.load()
    rows = [*feed.undelivered(in_force, settings.endpoints(in_force, ("kafka_bootstrap",)), limit)]
    columns = ("at", "destination", "severity", "vehicle_id", "rule", "alert_id", "why")
    if rows and as_json:
        typer.echo("\n".join(dumps(row).decode() for row in rows))
    elif rows:
        typer.echo(aligned([[row[column] for column in columns] for row in rows]))


@dead_letters.command("list")
def list_(
    reason: Reason = None,
    vehicle: Vehicle = None,
    since: Since = None,
    limit: Annotated[int, Option(min=0, help="how many, the newest; counts are over all")] = 50,
    as_json: Json = False,
) -> None:
    """List dead letters, newest last, and count them by reason. A letter's offset is its id."""
    from bridge.dead_letters import letters as text

    letters = _letters()
    newest, by_reason = text.tally(letters.select(reason, vehicle, _since_ms(since)), limit)
    try:
        marked = letters.marked()
    except ServiceError as error:
        typer.echo(f"which were re-injected is not known: {error}", err=True)
        marked = set()
    rows = [letter.row(marked) for letter in newest]
    counts = dict(sorted(by_reason.items()))
    whole = {"letters": rows, "by_reason": counts}
    typer.echo(text.as_json(whole) if as_json else text.list_text(rows, counts))


@dead_letters.command()
def show(
    offset: Annotated[int, Argument(min=0, help="the letter's offset")],
    raw: Annotated[bool, Option("--raw", help="the raw bytes alone, on standard output")] = False,
    limit: Annotated[int, Option("--bytes", min=0, help="show so many bytes at most")] = 1024,
) -> None:
    """Show one dead letter: its headers, then its bytes as hexadecimal and text."""
    from bridge.dead_letters.letters import letter_text

    letter = next(iter(_letters().find([offset])))
    if raw:
        sys.stdout.buffer.write(letter.value)
        return
    typer.echo(letter_text(letter, limit))


@dead_letters.command()
def reinject(
    offsets: Annotated[list[int] | None, Argument(min=0, help="offsets of letters")] = None,
    reason: Reason = None,
    vehicle: Vehicle = None,
    since: Since = None,
    dry_run: Annotated[bool, Option("--dry-run", help="only say what would happen")] = False,
    again: Annotated[bool, Option("--again", help="also those that went in before")] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters in again, as if they were received now, where today's contract lets them through.

    A letter that still breaks the contract stays and is named. Every letter stays in the dead-letter topic;
    going in twice changes no result. Name the letters by offset, or by --reason with --vehicle and --since.

    Exit codes: 0 all went in (now or before); 1 some stay, or a service is away; 2 wrong usage.
    """
    from bridge.dead_letters import letters as text

    if bool(offsets) == bool(reason) or (offsets and (vehicle or since)):
        raise ConfigError("name the letters: either OFFSET..., or --reason R with --vehicle and --since")
    letters = _letters()
    chosen = letters.find(offsets) if offsets else letters.select(reason, vehicle, _since_ms(since))
    report = letters.reinject(chosen, dry_run, again)
    typer.echo(text.as_json(report) if as_json else text.report_text(report, dry_run))
    if report.stays:
        raise typer.Exit(1)


def _letters() -> "DeadLetters":
    from bridge.dead_letters.work import DeadLetters

    in_force = settings.load()
    return DeadLetters(in_force, settings.endpoints(in_force, ("kafka_bootstrap", "db_ingest_url")))


def _since_ms(since: str | None) -> int | None:
    """So long before now (``10m``), or a time, UTC unless it has a zone; raises ConfigError."""
    if since is None:
        return None
    try:
        at_ms = time.time_ns() // 1_000_000 - duration_ms(since, "--since")
    except ConfigError:  # no duration
        return moment_ms(since, "--since")
    if at_ms < 0:
        raise ConfigError(f"--since {since}: a time after 1970 is wanted")
    return at_ms
