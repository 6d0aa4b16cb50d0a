"""The manifests of infra/deploy: valid objects, settings that exist, commands that there are. No cluster."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from typer.testing import CliRunner

from infra.cli import PACKAGES
from infra.settings.settings import load

FOLDER = Path(__file__).parents[3] / "infra" / "deploy"
OBJECTS = [*yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())]
KUBERNETES = "1.33"
SECRETS = {
    "ODOGRAPH_MQTT_URL": "mqtts://bridge:secret@mqtt-0,mqtt-1",
    **{
        f"ODOGRAPH_DB_{name}": f"postgresql://{name.lower()}:secret@pg-0,pg-1/odograph"
        for name in ("URL", "INGEST_URL", "DASHBOARD_URL", "DISPATCH_URL")
    },
}
"""As README.md says that the Secret is made."""


def name_of(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['metadata']['name']}"


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for each in OBJECTS:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", ()):
            yield f"{name_of(each)} {container['name']}", container


CONTAINERS = dict(containers())
PROGRAMS = {name: c for name, c in CONTAINERS.items() if not name.startswith("Job ")}


def configured() -> dict[str, str]:
    (found,) = (each["data"] for each in OBJECTS if name_of(each) == "ConfigMap odograph")
    return dict(found)


@pytest.mark.parametrize("manifest", OBJECTS, ids=name_of)
def test_each_object_is_one_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_each_program_starts_with_settings_that_there_are(
    container: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = configured()
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        given[variable["name"]] = SECRETS[reference["key"]] if reference else variable["value"]
    monkeypatch.chdir(tmp_path)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    load()  # an unknown variable, or a value that is none, is an error


@pytest.fixture(name="app", scope="module")
def all_commands() -> typer.Typer:
    app = typer.Typer()
    for package in PACKAGES:
        import_module(f"{package}.cli").register(app)
    return app


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_each_program_is_a_command(container: dict[str, Any], app: typer.Typer) -> None:
    assert CliRunner().invoke(app, [*container["args"], "--help"]).exit_code == 0


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


@pytest.mark.parametrize("name", ["downlink", "events"])
def test_a_program_with_a_standby_is_given_the_database_that_holds_its_lease(name: str) -> None:
    container = CONTAINERS[f"Deployment odograph-{name} {name}"]
    assert "ODOGRAPH_DB_INGEST_URL" in {variable["name"] for variable in container["env"]}
