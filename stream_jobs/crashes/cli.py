"""The commands ``odograph crash list|show|verify|anchor|lock|export``."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from infra.settings.settings import endpoints, load

crash_app = typer.Typer(no_args_is_help=True, help="Crash records: verdicts, integrity, locks, evidence.")
Name = Annotated[str, typer.Argument(help="CRASH_ID, VEHICLE/CRASH_ID or VEHICLE/BOOT/CRASH_ID")]
AsJson = Annotated[bool, typer.Option("--json", help="as JSON on stdout")]
Basis = Annotated[str, typer.Option(help="legal basis, KIND: REFERENCE; without it the kinds are listed")]
Verdict = Literal["confirmed", "suspect", "pothole", "unverified"]
By = Annotated[str | None, typer.Option("--by", help="who does it", show_default="the user's name")]


@crash_app.command("list")
def list_(
    vehicle: Annotated[str | None, typer.Option(help="of one vehicle")] = None,
    verdict: Annotated[Verdict | None, typer.Option(help="with this verdict only")] = None,
    json: AsJson = False,
) -> None:
    """The crash records, the newest first: verdict, seal, completeness, lock."""
    from stream_jobs.crashes import bundle, tables

    found = tables.records(endpoints(load()).db_dashboard_url, vehicle, verdict)
    typer.echo(bundle.as_json(found) if json else "\n".join(map(bundle.line, found)) or "no crash records")


@crash_app.command()
def show(record: Name, json: AsJson = False) -> None:
    """One record: what it says, the verdict and why, what is wrong with it, what was done with it.

    The audit log notes who looked.
    """
    from infra.sql import queries
    from stream_jobs.crashes import bundle, tables

    places = endpoints(load())
    url = places.db_dashboard_url
    found = tables.evidence(url, tables.named(url, record))
    vehicle = found.record["vehicle_id"]
    queries.note(places.db_ingest_url, "vehicle viewed", vehicle, f"odograph crash show {record}")
    typer.echo(bundle.as_json(found) if json else bundle.evidence_text(found))


@crash_app.command()
def verify(
    head: Annotated[
        str | None, typer.Option(help="a hash that verify printed earlier: it must still be in the log")
    ] = None,
    without_log: Annotated[
        bool, typer.Option("--without-log", help="do not compare with Kafka: it was lost, or is away")
    ] = False,
    json: AsJson = False,
) -> None:
    """Check the custody log's chain, signatures and anchors, and every record and lock against it.

    Records are also held against their vehicles' signatures, their own bytes and Kafka's log. Keep the
    head that it prints somewhere else: a log rewritten as a whole is found by it. Exit 1: something was
    changed.
    """
    from infra.clients import database_url
    from infra.stack.access import identity
    from stream_jobs.audit_log.cli import end_check
    from stream_jobs.crashes import anchor, bundle, custody, tables

    places, settings = endpoints(load()), load()
    stores, owner = tables.stores(places.db_ingest_url), database_url.login(places.db_owner_url)[0]
    may = {"received": {*stores, "migration"}, "refused": stores, "deleted": {owner}}
    vault, log = tables.vault(places.db_ingest_url, identity.device_trust(settings)), None
    if not without_log:
        log = custody.read_log(places.kafka_bootstrap, settings.kafka.prefix, vault)
    found = custody.verified(vault, may, log, head, identity.witness(settings), anchor.read(settings))
    typer.echo(bundle.as_json(found) if json else found.as_text())
    end_check("odograph crash verify", found.wrong)


@crash_app.command("anchor")
def anchor_() -> None:
    """Sign and time-stamp the custody log's head now; maintenance does, too. Exit 1: it does not hold."""
    from stream_jobs.crashes import anchor, tables

    settings = load()
    entry = tables.anchor_log(settings, endpoints(settings).db_ingest_url)
    typer.echo(f"anchored at entry {entry}: {anchor.read(settings).words}")


@crash_app.command()
def lock(
    record: Name,
    why: Annotated[str, typer.Option("--why", help="why; it stands in the custody log")],
    by: By = None,
) -> None:
    """Lock a record for good: no role can change or delete it any more. Again is fine."""
    from infra.clients.db import system_user
    from infra.stack.access import identity
    from stream_jobs.crashes import bundle, tables

    url = endpoints(load()).db_ingest_url
    key = tables.named(url, record)
    who, reason = bundle.one_line("--by", by or system_user()), bundle.one_line("--why", why)
    typer.echo(
        "locked" if tables.lock(url, key, who, reason, identity.notary(load())) else "was locked before"
    )


@crash_app.command()
def export(
    record: Name,
    basis: Basis = "",
    out: Annotated[Path, typer.Option(help="folder for the bundle")] = Path(),
    by: By = None,
) -> None:
    """Write one zip: the record as received, its canonical form, tables, verdict, custody log, hashes.

    The same record and basis give the same bytes. The custody log notes the export, with basis and hash. For
    research and investigations the vehicle has a pseudonym in it, and nothing tells which one it is.
    """
    from infra.clients.db import system_user
    from infra.contract.legal_basis import legal_basis
    from infra.settings.files import write_whole
    from stream_jobs.crashes import bundle, tables

    url, who = endpoints(load()).db_ingest_url, bundle.one_line("--by", by or system_user())
    right = legal_basis(basis)
    name, body, digest = tables.export(load(), (url, url), tables.named(url, record), who, right)
    write_whole(out / name, body, 0o600)
    typer.echo(f"{digest}  {out / name}")
