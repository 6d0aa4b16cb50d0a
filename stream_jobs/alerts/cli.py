"""The commands ``odograph alerts rules | list | show | ack | clear | silence | unsilence | backtest``."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.contract.errors import ConfigError, ServiceError

if TYPE_CHECKING:
    from stream_jobs.alerts.store import AlertStore

alerts = typer.Typer(no_args_is_help=True, help="Alerts: their rules, their life, and rules on trial.")

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output")]
By = Annotated[str | None, typer.Option("--by", help="who does it [the user of this computer]")]
Note = Annotated[str | None, typer.Option("--note", help="a few words for others")]
Numbers = Annotated[list[int], typer.Argument(help="numbers of alerts, see alerts list")]
RuleName = Annotated[str | None, typer.Option("--rule", help="a rule's id")]
Vehicle = Annotated[str | None, typer.Option("--vehicle", help="vehicle id, 17 characters")]


@alerts.command()
def rules(
    file: Annotated[Path | None, typer.Option("--rules", help="a rules file [that in force]")] = None,
    as_json: Json = False,
) -> None:
    """List the rules in force, or those of a file; a wrong file is refused by rule and key (exit 2).

    In force are the metrics of cohorts too.
    """
    from infra.settings.settings import load
    from stream_jobs.alerts.text import rule_table
    from stream_jobs.rules.cohort.metrics import load_metrics
    from stream_jobs.rules.model import load_rules

    found = [rule.summary() for rule in load_rules(file or load().jobs.rules)]
    if file is None:
        found += [metric.summary() for metric in load_metrics(load().cohort.metrics)]
    _tell(found if as_json else rule_table(found), as_json)


@alerts.command("list")
def list_(
    rule: RuleName = None,
    vehicle: Vehicle = None,
    every: Annotated[bool, typer.Option("--all", help="those that are over too")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="at most so many")] = 100,
    as_json: Json = False,
) -> None:
    """List alerts: active first, then unacknowledged, then by severity. Times are UTC."""
    from stream_jobs.alerts.text import alert_table

    with _store() as store:
        found = store.listed(rule, vehicle, every, limit)
    _tell(found if as_json else alert_table(found), as_json)


@alerts.command()
def show(number: Annotated[int, typer.Argument(help="number of the alert")], as_json: Json = False) -> None:
    """Show one alert: life, latency, history, and the frames around it. Exit 1 where there is none."""
    from stream_jobs.alerts.text import alert_page

    with _store() as store:
        found = store.shown(number)
    if found is None:
        raise ServiceError(f"there is no alert {number}; see odograph alerts list --all")
    _tell(found if as_json else alert_page(found), as_json)


@alerts.command()
def ack(numbers: Numbers, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """Acknowledge alerts: somebody has seen them. They stay active until they are over."""
    with _store() as store:
        done = store.acknowledge(numbers, by or getpass.getuser(), note)
    _report("acknowledged", numbers, done, as_json)


@alerts.command()
def clear(numbers: Numbers, by: By = None, note: Note = None, as_json: Json = False) -> None:
    """End alerts by hand, crashes above all: they do not clear by themselves. A new finding opens anew."""
    with _store() as store:
        done = store.end(numbers, by or getpass.getuser(), note)
    _report("cleared", numbers, done, as_json)


@alerts.command()
def silence(
    length: Annotated[str, typer.Option("--for", help="how long, as 30m, 2h")],
    why: Annotated[str, typer.Option("--why", help="the reason")],
    rule: RuleName = None,
    vehicle: Vehicle = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Tell nobody of a rule's or a vehicle's alerts for a while; they are stored and marked."""
    from infra.contract.downlink import silence_file, write_silences
    from infra.settings.settings import load
    from infra.settings.values import duration_ms

    if rule is None and vehicle is None:
        raise ConfigError("alerts silence: --rule or --vehicle is wanted, or both")
    if not why.strip():
        raise ConfigError("alerts silence: --why is empty")
    seconds = duration_ms(length, "--for") / 1000
    settings = load()
    with _store() as store:
        done = store.silence(rule, vehicle, seconds, by or getpass.getuser(), why.strip())
        write_silences(silence_file(settings.paths.home), store.in_force())
    text = f"silence {done['silence_no']}: until {done['until_at']:%Y-%m-%d %H:%M:%S %Z}"
    _tell(done if as_json else text, as_json)


@alerts.command()
def unsilence(
    numbers: Annotated[list[int], typer.Argument(help="numbers of silences, as silence gave them")],
    by: By = None,
    as_json: Json = False,
) -> None:
    """End silences before their time: alerts are told again from now on."""
    from infra.contract.downlink import silence_file, write_silences
    from infra.settings.settings import load

    home = load().paths.home
    with _store() as store:
        done = store.end_silences(numbers, by or getpass.getuser())
        write_silences(silence_file(home), store.in_force())
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
    lead: Annotated[str, typer.Option(help="run-up that is read before it, for what lasts")] = "1h",
    vehicle: Vehicle = None,
    as_json: Json = False,
) -> None:
    """Say which alerts changed rules would have raised and lost over the archive.

    The rules in force with the same ids run over the same frames; nothing is stored.
    """
    from infra.clients.log import configure
    from infra.settings.settings import load
    from infra.settings.values import duration_ms, moment_ms
    from stream_jobs.alerts.text import comparison_page
    from stream_jobs.app.session import spark_when_asked
    from stream_jobs.reprocess.backtest import as_json as whole
    from stream_jobs.reprocess.backtest import backtest as run
    from stream_jobs.reprocess.queue import Span
    from stream_jobs.rules.model import load_rules

    configure("backtest")
    settings = load()
    changed, in_force = load_rules(file), load_rules(settings.jobs.rules)
    span = Span(moment_ms(since, "--from"), moment_ms(until, "--to"), vehicle)
    lead_ms = duration_ms(lead, "--lead")
    if span.until_ms <= span.from_ms:
        raise ConfigError("alerts backtest: --to is not after --from")
    with spark_when_asked(settings, "backtest", settings.jobs.instant_mb) as session:
        found = run(session, settings, file, in_force, changed, span, lead_ms)
    _tell(whole(found) if as_json else comparison_page(found), as_json)


def _store() -> AbstractContextManager[AlertStore]:
    from infra.settings.settings import endpoints, load
    from stream_jobs.alerts.store import alert_store

    return alert_store(endpoints(load()).db_ingest_url)


def _report(word: str, wanted: Iterable[int], done: list[int], as_json: bool) -> None:
    left = sorted(set(wanted) - set(done))
    text = f"{word}: {', '.join(map(str, sorted(done))) or 'none'}"
    if left:
        text += f"; left as they were: {', '.join(map(str, left))}"
    _tell({word: sorted(done), "unchanged": left} if as_json else text, as_json)
    if not done:
        raise typer.Exit(1)


def _tell(what: Any, as_json: bool) -> None:
    typer.echo(json.dumps(what, default=str) if as_json else what)
