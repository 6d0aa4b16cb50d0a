"""The files of infra/deploy: valid objects, settings that exist, commands that there are. No cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import typer
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from typer.testing import CliRunner

from infra.cli import PACKAGES
from infra.settings.settings import load
from infra.stack.stack import WELL_KNOWN

FOLDER = Path(__file__).parents[3] / "infra" / "deploy"
OBJECTS = [*yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())]
COMPOSE = yaml.safe_load((FOLDER / "compose.cluster.yaml").read_text())
KUBERNETES = "1.33"
SECRETS = {
    "ODOGRAPH_MQTT_URL": "mqtts://bridge:secret@mqtt-0,mqtt-1",
    **{
        f"ODOGRAPH_DB_{name}": f"postgresql://{name.lower()}:secret@pg-0,pg-1/odograph"
        for name in ("URL", "INGEST_URL", "DASHBOARD_URL", "DISPATCH_URL")
    },
}
"""As README.md says that the Secret is made."""
PLACED = {
    "ODOGRAPH_MQTT_URL", "ODOGRAPH_KAFKA_BOOTSTRAP", "ODOGRAPH_PATHS_LOOKUPS", "ODOGRAPH_JOBS_MASTER",
    "ODOGRAPH_HEALTH_HOSTS", "ODOGRAPH_HEALTH_PORT", "ODOGRAPH_DASHBOARD_HOSTS",
}  # fmt: skip
"""Addresses, which each file has of its own."""


def name_of(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for each in OBJECTS:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", ()):
            yield f"{name_of(each)} {container['name']}", container


CONTAINERS = dict(containers())
PROGRAMS = {name: c for name, c in CONTAINERS.items() if not name.startswith("Job ")}


@dataclass(frozen=True)
class Started:
    """A program as a file starts it."""

    args: list[str]
    given: dict[str, str]
    copies: int
    memory: str


def configured() -> dict[str, str]:
    (found,) = (each["data"] for each in OBJECTS if name_of(each) == "ConfigMap odograph")
    return dict(found)


def by_kubernetes() -> Iterator[tuple[str, Started]]:
    for each in OBJECTS:
        for container in each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            given = configured()
            for variable in container.get("env", ()):
                reference = variable.get("valueFrom", {}).get("secretKeyRef")
                given[variable["name"]] = SECRETS[reference["key"]] if reference else variable["value"]
            memory = container["resources"]["limits"]["memory"].removesuffix("i")
            yield (
                container["name"],
                Started(container["args"], given, each["spec"].get("replicas", 1), memory),
            )


def filled_in(text: str) -> str:
    """What stands there once .env has what is asked for: its default, or a word."""
    return re.sub(r"\$\{\w+(?::-([^}]*)|:\?[^}]*)\}", lambda found: found[1] or "secret", text)


def by_compose() -> Iterator[tuple[str, Started]]:
    for name, service in COMPOSE["services"].items():
        if "command" in service and service["image"] == IMAGE and "entrypoint" not in service:
            given = {key: filled_in(value) for key, value in service["environment"].items()}
            limit = service["deploy"]["resources"]["limits"]["memory"]
            yield name, Started(service["command"], given, service["deploy"].get("replicas", 1), limit)


IMAGE = "odograph:0.1.0"
BY_KUBERNETES, BY_COMPOSE = dict(by_kubernetes()), dict(by_compose())
STARTED = {
    f"{file} {name}": started
    for file, programs in (("kubernetes", BY_KUBERNETES), ("compose", BY_COMPOSE))
    for name, started in programs.items()
}


@pytest.mark.parametrize("manifest", OBJECTS, ids=name_of)
def test_each_object_is_one_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_compose_file_is_one_by_the_specification() -> None:
    jsonschema.Draft202012Validator(get_builtin_schema("vendor.compose-spec")).validate(COMPOSE)
    mounted = {
        kind: {each["source"] for service in COMPOSE["services"].values() for each in service.get(kind, ())}
        for kind in ("configs", "secrets")
    }
    assert mounted == {kind: {*COMPOSE[kind]} for kind in mounted}
    volumes = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", ())]
    assert {volume.partition(":")[0] for volume in volumes} == {*COMPOSE["volumes"]}


def test_what_the_compose_file_asks_of_env_is_what_the_readme_writes_there() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", (FOLDER / "compose.cluster.yaml").read_text()))
    readme = (FOLDER / "README.md").read_text()
    (roles,) = re.findall(r"for role in ([A-Z_ ]+);", readme)
    assert asked == {f"{role}_PASSWORD" for role in roles.split()} | {
        name for name in asked if re.search(rf"`{name}[=`]", readme)
    }


@pytest.mark.parametrize("started", STARTED.values(), ids=STARTED)
def test_each_program_starts_with_settings_that_there_are(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in started.given.items():
        monkeypatch.setenv(name, value)
    load()  # an unknown variable, or a value that is none, is an error


def test_only_the_dashboard_is_open_to_everybody() -> None:
    (policy,) = (each["spec"] for each in OBJECTS if each["kind"] == "NetworkPolicy")
    reached = {one["port"]: [*each.get("from", ())] for each in policy["ingress"] for one in each["ports"]}
    assert {port for port, who in reached.items() if not who} == {WELL_KNOWN["dashboard"]}
    pages = {port["containerPort"] for each in PROGRAMS.values() for port in each["ports"]}
    assert pages <= {*reached}


@pytest.mark.parametrize("name", BY_KUBERNETES)
def test_both_files_start_a_program_alike(name: str) -> None:
    ours, theirs = BY_COMPOSE[name], BY_KUBERNETES[name]
    assert (ours.args, ours.copies, ours.memory) == (theirs.args, theirs.copies, theirs.memory)
    assert ours.given.keys() | PLACED == theirs.given.keys() | PLACED
    same = ours.given.keys() - PLACED - SECRETS.keys()
    assert {key: ours.given[key] for key in same} == {key: theirs.given[key] for key in same}


def test_both_files_start_the_same_programs() -> None:
    assert BY_COMPOSE.keys() == BY_KUBERNETES.keys()


def test_the_clusters_of_the_compose_file_are_those_that_the_settings_name() -> None:
    settings, services = BY_COMPOSE["stream"].given, COMPOSE["services"]
    brokers = [name for name, each in services.items() if each.get("image", "").startswith("apache/kafka")]
    brokers.remove("kafka-controller")
    assert settings["ODOGRAPH_KAFKA_BOOTSTRAP"] == ",".join(f"{name}:9092" for name in brokers)
    assert int(settings["ODOGRAPH_KAFKA_REPLICATION_FACTOR"]) == len(brokers)
    for url in (value for key, value in settings.items() if key in {"ODOGRAPH_MQTT_URL", *SECRETS}):
        assert {*url.rpartition("@")[2].partition("/odograph")[0].removeprefix("mqtt://").split(",")} <= {
            *services
        }
    named = [host for value in settings.values() for host in re.findall(r"://([a-z][\w-]*):\d+", value)]
    assert {*named} == {"hdfs-namenode", "spark-master", "maintenance"} <= {*services}


@pytest.mark.parametrize("name", [name for name in BY_COMPOSE if name != "install"])
def test_a_composed_program_is_asked_where_its_health_page_listens(name: str) -> None:
    port = (
        str(WELL_KNOWN["dashboard"])
        if name == "dashboard"
        else BY_COMPOSE[name].given["ODOGRAPH_HEALTH_PORT"]
    )
    assert f"'http://localhost:{port}/readyz'" in COMPOSE["services"][name]["healthcheck"]["test"][-1]


def test_the_proxy_leads_to_as_many_dashboards_as_there_are() -> None:
    (line,) = (
        line for line in COMPOSE["configs"]["proxy"]["content"].splitlines() if "server-template" in line
    )
    assert line.split()[1:4] == ["dashboard", str(BY_COMPOSE["dashboard"].copies), "dashboard:8501"]


@pytest.fixture(name="app", scope="module")
def all_commands() -> typer.Typer:
    app = typer.Typer()
    for package in PACKAGES:
        import_module(f"{package}.cli").register(app)
    return app


@pytest.mark.parametrize("started", STARTED.values(), ids=STARTED)
def test_each_program_is_a_command(started: Started, app: typer.Typer) -> None:
    assert CliRunner().invoke(app, [*started.args, "--help"]).exit_code == 0


@pytest.mark.parametrize("container", PROGRAMS.values(), ids=PROGRAMS)
def test_each_program_is_asked_where_its_health_page_listens(container: dict[str, Any]) -> None:
    own = (
        {variable["name"]: variable.get("value") for variable in container["env"]}
        if "env" in container
        else {}
    )
    port = own.get("ODOGRAPH_HEALTH_PORT") or configured()["ODOGRAPH_HEALTH_PORT"]
    if container["name"] == "dashboard":
        port = "8501"
    (offered,) = container["ports"]
    assert str(offered["containerPort"]) == port
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {get["port"] for get in asked.values()} == {offered["name"]}
    assert [get["path"] for get in asked.values()] == ["/livez", "/livez", "/readyz"]


def test_who_may_be_evicted_is_said_of_each_program_that_runs_more_than_once() -> None:
    several = {
        e["metadata"]["name"] for e in OBJECTS if e["kind"] == "Deployment" and e["spec"]["replicas"] > 1
    }
    assert {e["metadata"]["name"] for e in OBJECTS if e["kind"] == "PodDisruptionBudget"} == several


def test_an_upgrade_runs_no_program_twice_that_must_exist_once() -> None:
    alone = [e["spec"] for e in OBJECTS if e["kind"] == "Deployment" and e["spec"]["replicas"] == 1]
    assert [spec["strategy"]["type"] for spec in alone] == ["Recreate"]


@pytest.mark.parametrize("name", ["downlink", "events"])
def test_a_program_with_a_standby_is_given_the_database_that_holds_its_lease(name: str) -> None:
    container = CONTAINERS[f"Deployment odograph-{name} {name}"]
    assert "ODOGRAPH_DB_INGEST_URL" in {variable["name"] for variable in container["env"]}
