"""Starts a simulation: builds the world, connects, runs, and says how it ended."""

import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edge_simulator.console import now_ms, say, stop_flag
from edge_simulator.edr import crash_store
from edge_simulator.runfiles import RunFiles
from edge_simulator.scenario import SAMPLES, Scenario
from edge_simulator.sending import run
from edge_simulator.sending.publishing import Message
from edge_simulator.sending.run import Run, RunOptions, Say, publisher_of
from edge_simulator.town.roads import region, towns
from edge_simulator.world import World
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import downlink
from infra.contract.errors import ConfigError
from infra.contract.topics import mqtt_topic
from infra.settings import settings as configuration
from infra.sql import queries
from infra.stack import devices

KEEP_S = 60.0  # longer than a broker takes to write what it holds, or the bridge to fetch it


def publish(
    in_force: configuration.Settings, wanted: Scenario, options: RunOptions, say: Say = say,
    begin_ms: Callable[[], int] = now_ms,
) -> Mapping[str, Any]:  # fmt: skip
    """Simulate and publish; the summary. ``begin_ms`` is asked for a live one once the world is ready."""
    address = configuration.endpoints(in_force, ("mqtt_host",))
    # A broker that is left may still hold what it acknowledged: that goes again by the next one.
    keep_s = options.keep_s or (KEEP_S if len(address.brokers) > 1 else 0.0)
    world = World(wanted)
    world.warm_up()
    wills, clients = {}, options.clients
    own: Sequence[MqttBroker] = ()
    if address.device_port:
        named = devices.speakers(options.run_id, world.vehicle_ids, len(clients))
        own, clients = devices.connected_as(in_force, address, named), [*named]
    if options.live:
        world.begin_at(begin_ms() - SAMPLES * wanted.cadence.dt_ms)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a file, and 1,024 are usual
    if len(clients) == wanted.vehicles > 1:
        for last in world.emitter.farewells(world.scenario.start_ms):
            topic = mqtt_topic(options.mqtt_root, world.vehicle_ids[last.vehicle], "status")
            wills[last.vehicle] = Message(topic, last.payload)
    subscriptions, verifier = {}, None
    if options.live and options.react:
        verifier = downlink.verifier(in_force)
        subscriptions = run.filters(options.mqtt_root, world.vehicle_ids, len(clients), bool(own))
    with (
        stop_flag(say) as stop,
        publisher_of(options.client, wanted.vehicles, keep_s)(
            address.brokers, clients, wills, filters=subscriptions, own=own
        ) as publisher,
    ):
        publisher.connect(deadline_s=5.0 + (0.05 if own else 0.01) * len(clients))
        if wanted.first == 0 and not own:  # a vehicle of another run is not ours to speak for
            kept = crash_store.unacked_of(crash_store.files(in_force.paths.home), say)
            crash_store.resend(publisher, options.mqtt_root, kept)
        with RunFiles(in_force.paths.home, options.run_id, options.log_frames) as files:
            return Run(options, world, publisher, files, say, verifier).go(stop)


def connection_names(text: str, vehicles: int, run_id: str) -> list[str]:
    """Client identifiers for ``--connections``: a number, or per-vehicle. Raises ConfigError."""
    if text == "per-vehicle":
        count = vehicles
    elif text.isdecimal() and int(text) >= 1:
        count = min(int(text), vehicles)
    else:
        raise ConfigError(f"--connections {text}: a number from 1 on, or per-vehicle, is wanted")
    return [f"odograph-{run_id}-{k}" for k in range(count)]


def store_roads(url: str, seed: int, place: tuple[float, float], profile: str, vehicles: int) -> int:
    """Put the roads of so many vehicles' towns at ``place`` (lat, lon in deg) into the database; how many."""
    net = region(seed, *place, towns(profile, vehicles))
    return queries.store_roads(url, f"city-{seed}", net.edges())
