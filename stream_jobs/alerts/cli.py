"""The commands ``odograph alerts rules | list | show | ack | clear | silence | unsilence | backtest``, and
``odograph incidents list | show | ack | assign | comment | silence | close``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.clients.log import configure
from infra.contract import messages
from infra.contract.downlink import Silences
from infra.contract.errors import ConfigError
from infra.settings.settings import endpoints, load
from infra.settings.values import duration_ms, moment_ms, vehicle_id
from stream_jobs.alerts import text

if TYPE_CHECKING:
    from stream_jobs.alerts.store import AlertStore, Deed

alerts = typer.Typer(no_args_is_help=True, help="Alerts: their rules, their life, and rules on trial.")
incidents = typer.Typer(
    no_args_is_help=True, help="Incidents: alerts of one vehicle and cause, or of many vehicles at once."
)

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output")]
By = Annotated[str | None, typer.Option("--by", help="who does it", show_default="the user of this computer")]
Note = Annotated[str | None, typer.Option("--note", help="a few words for others")]
Numbers = Annotated[list[int], typer.Argument(help="numbers of alerts, see alerts list")]
RuleName = Annotated[str | None, typer.Option("--rule", help="a rule's id")]
Incidents = Annotated[list[int], typer.Argument(help="numbers of incidents, see incidents list")]
Length = Annotated[str, typer.Option("--for", help="how long, as 30m, 2h")]
Why = Annotated[str, typer.Option("--why", help="the reason")]
Every = Annotated[bool, typer.Option("--all", help="those that are over too")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="how many at most")]
Vehicle = Annotated[str | None, typer.Option("--vehicle", help="vehicle id, 17 characters")]


@alerts.command()
def rules(
    file: Annotated[
        Path | None, typer.Option("--rules", help="a rules file", show_default="that in force")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the rules in force, or those of a file; a wrong file is refused by rule and key (exit 2).

    Those in force include the metrics of cohorts. Expressions of instant rules are checked by Spark, when
    `instant` starts.
    """
    from stream_jobs.rules import model
    from stream_jobs.rules.cohort.judge import load_metrics
    from stream_jobs.rules.evaluation import check_translations

    settings = load()
    path, metrics = file or settings.jobs.rules, load_metrics(settings.cohort.metrics)
    found = model.load_rules(path)
    model.load_causes(path, found, [metric.id for metric in metrics])
    check_translations(path or model.SHIPPED, found)
    listed = [rule.summary() for rule in found]
    if file is None:
        listed += [metric.summary() for metric in metrics]
    _tell(listed, as_json, text.rule_table)


@alerts.command("list")
def list_(
    rule: RuleName = None,
    vehicle: Vehicle = None,
    every: Every = False,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List alerts: active first, then unacknowledged, then by severity. Times are UTC."""
    with _store() as store:
        found = store.listed(rule, vehicle, every, limit)
    _tell(found, as_json, text.alert_table)


@alerts.command()
def show(number: Annotated[int, typer.Argument(help="number of the alert")], as_json: Json = False) -> None:
    """Show one alert: life, latency, history, and the frames around it. Exit 1 where there is none."""
    with _store() as store:
        found = store.shown(number)
    _tell(found, as_json, text.alert_page)


@alerts.command()
def ack(numbers: Numbers, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """Acknowledge alerts: somebody has seen them. They stay active until they are over."""
    _do("acknowledge", "acknowledged", numbers, by, note, as_json)


@alerts.command()
def clear(numbers: Numbers, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """End alerts by hand, crashes above all: they do not clear by themselves. A new finding opens anew."""
    _do("clear", "cleared", numbers, by, note, as_json)


@alerts.command()
def silence(
    length: Length,
    why: Why,
    rule: RuleName = None,
    vehicle: Vehicle = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Notify nobody of a rule's or a vehicle's alerts for a while; they are stored and marked."""
    if rule is None and vehicle is None:
        raise ConfigError("alerts silence: --rule or --vehicle is wanted, or both")
    seconds = _quiet_s(length, why, "alerts")
    with _store() as store:
        known = [*store.rules(), messages.RULE]
        if rule is not None and rule.partition(".")[0] not in known:
            raise ConfigError(f"--rule {rule!r}: there is no such rule; there are: {', '.join(known)}")
        done = store.silence(rule, vehicle, seconds, _who(by), why.strip())
        _write_silences(store)
    told = f"silence {done['silence_no']}: until {done['until_at']:%Y-%m-%d %H:%M:%S %Z}"
    _tell(done if as_json else told, as_json)


@alerts.command()
def unsilence(
    numbers: Annotated[list[int], typer.Argument(help="numbers of silences, as silence gave them")],
    by: By = None,
    as_json: Json = False,
) -> None:
    """End silences before their time: notifications go out again from now on."""
    with _store() as store:
        done = store.end_silences(numbers, _who(by))
        _write_silences(store)
    _report("ended", numbers, done, as_json)


@alerts.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def rehearse() -> None:
    """Say what the command is called today."""
    raise ConfigError("alerts rehearse: was renamed to alerts backtest; its options are the same")


@alerts.command()
def backtest(
    file: Annotated[
        Path, typer.Option("--rule", help="rules file with the changed rules; others may be left out")
    ],
    since: Annotated[str, typer.Option("--from", help="begin of the history, as 2026-11-20T08:00 (UTC)")],
    until: Annotated[str, typer.Option("--to", help="its end")],
    lead: Annotated[str, typer.Option(help="run-up that is read before --from, for stateful rules")] = "1h",
    vehicle: Vehicle = None,
    as_json: Json = False,
) -> None:
    """Say which alerts changed rules would have raised and lost over the archive.

    The rules in force with the same ids run over the same frames; nothing is stored.
    """
    from stream_jobs.app.session import spark_when_asked
    from stream_jobs.reprocess.backtest import as_json as whole
    from stream_jobs.reprocess.backtest import backtest as run
    from stream_jobs.reprocess.queue import Span
    from stream_jobs.rules.model import load_rules

    whose = None if vehicle is None else vehicle_id(vehicle, "--vehicle")
    configure("backtest")
    settings = load()
    changed, in_force = load_rules(file), load_rules(settings.jobs.rules)
    span = Span(moment_ms(since, "--from"), moment_ms(until, "--to"), whose)
    lead_ms = duration_ms(lead, "--lead")
    if span.until_ms <= span.from_ms:
        raise ConfigError("alerts backtest: --to is not after --from")
    with spark_when_asked(settings, "backtest", settings.jobs.instant_mb) as session:
        found = run(session, settings, file, in_force, changed, span, lead_ms)
    _tell(whole(found) if as_json else text.comparison_page(found), as_json)


@incidents.command("list")
def list_incidents(
    cause: Annotated[
        str | None, typer.Option("--cause", help="as cooling, silence, tyre, 'tyre front left'")
    ] = None,
    vehicle: Vehicle = None,
    every: Every = False,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List incidents: active first, then unacknowledged, then by severity. Times are UTC."""
    with _store() as store:
        found = store.incidents(cause, vehicle, every, limit)
    _tell(found, as_json, text.incident_table)


@incidents.command("show")
def show_incident(
    number: Annotated[int, typer.Argument(help="number of the incident")], as_json: Json = False
) -> None:
    """Show one incident: its alerts, and what was done and said. Exit 1 where there is none."""
    with _store() as store:
        found = store.incident(number)
    _tell(found, as_json, text.incident_page)


@incidents.command("ack")
def ack_incidents(numbers: Incidents, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """Acknowledge incidents and all their alerts: somebody has seen them."""
    _do("incident_acknowledge", "acknowledged", numbers, by, note, as_json)


@incidents.command()
def assign(
    numbers: Incidents,
    to: Annotated[
        str | None, typer.Option("--to", help="who has them from now on", show_default="nobody")
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Give incidents to somebody."""
    _do("incident_assign", "assigned", numbers, by, to, as_json)


@incidents.command()
def comment(
    numbers: Incidents,
    note: Annotated[str, typer.Option("--note", help="the comment")],
    by: By = None,
    as_json: Json = False,
) -> None:
    """Say something about incidents."""
    _do("incident_comment", "commented", numbers, by, note, as_json)


@incidents.command("silence")
def silence_incidents(
    numbers: Incidents, length: Length, why: Why, by: By = None, as_json: Json = False
) -> None:
    """Notify nobody of an incident's vehicle and cause for a while; of one of the fleet, of the cause."""
    seconds = _quiet_s(length, why, "incidents")
    with _store() as store:
        done = store.silence_incidents(numbers, seconds, _who(by), why.strip())
        _write_silences(store)
    _report("silenced", numbers, [row["incident_no"] for row in done], as_json)


@incidents.command()
def close(numbers: Incidents, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """End all alerts of incidents by hand. A new finding opens them anew."""
    _do("incident_close", "closed", numbers, by, note, as_json)


def _do(deed: Deed, word: str, numbers: list[int], by: str | None, words: str | None, as_json: bool) -> None:
    with _store() as store:
        done = store.do(deed, numbers, _who(by), words)
    _report(word, numbers, done, as_json)


def _who(by: str | None) -> str:
    from infra.clients.db import system_user

    return by or system_user()


def _quiet_s(length: str, why: str, group: str) -> float:
    if not why.strip():
        raise ConfigError(f"{group} silence: --why is empty")
    return duration_ms(length, "--for") / 1000


def _write_silences(store: AlertStore) -> None:
    Silences.write(load().paths.home, store.in_force())


def _store() -> AbstractContextManager[AlertStore]:
    from stream_jobs.alerts.store import alert_store

    return alert_store(endpoints(load()).db_ingest_url)


def _report(word: str, wanted: Iterable[int], done: list[int], as_json: bool) -> None:
    left = sorted(set(wanted) - set(done))
    told = f"{word}: {', '.join(map(str, sorted(done))) or 'none'}"
    if left:
        told += f"; left as they were: {', '.join(map(str, left))}"
    _tell({word: sorted(done), "unchanged": left} if as_json else told, as_json)
    if not done:
        raise typer.Exit(1)


def _tell(what: Any, as_json: bool, text_of: Callable[[Any], str] = str) -> None:
    typer.echo(json.dumps(what, default=str) if as_json else text_of(what))
