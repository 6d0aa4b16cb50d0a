"""The local stack of one checkout: its services, addresses and passwords. Each change is idempotent."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from infra.clients import database_url
from infra.clients.db import system_user
from infra.clients.locks import locked
from infra.clients.mqtt_broker import MqttBroker
from infra.contract import policy
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.files import read_json, write_private
from infra.settings.sections import listed
from infra.settings.settings import (
    ENDPOINTS_FILE,
    HOME_FILE,
    LOCK_FILE,
    SETTING_OF,
    Endpoints,
    Settings,
    endpoints,
    external,
    fixed_ports,
)
from infra.sql.migrate import migrate
from infra.stack import postgres, processes, service, supervisor
from infra.stack.access import identity, users
from infra.stack.downloads import cache, fetch
from infra.stack.hosts import mirror, regions
from infra.stack.hosts.cluster import ALONE, FIRST, Cluster
from infra.stack.kafka import acl_faults, create_topics, kafka, kafka_address
from infra.stack.mosquitto import Secure, mosquitto, mosquitto_reread, tells_refused
from infra.stack.service import HOST, Runner, Service
from infra.stack.supervisor import SUPERVISOR, Program, odograph, programs

SERVICES = ("postgres", "mosquitto", "kafka")
DEVICES = "mosquitto-devices"  # the vehicles' port of a secure broker
WELL_KNOWN = {"mosquitto": 1883, DEVICES: 8883, "kafka": 9092, "postgres": 5432, "dashboard": 8501}
SHARED = ("checkpoints", "archive", "lookups")  # folders of a home that its hosts share
PRIVATE = (*SHARED, "logs", "sessions", "runs", "days", "anchors", "hosts", "replays")
"""Folders of a home in which vehicles are named: no other user of the machine reads them."""
SESSIONS_S = 120
Say = Callable[[str], None]


class Stack:
    """The services of one home. ``preferred``: ports tried first at the first start; ``only``: services.

    ``cluster`` has those of which the settings' profile wants several.
    """

    def __init__(
        self,
        settings: Settings,
        say: Say,
        preferred: dict[str, int] | None = None,
        only: Collection[str] = SERVICES,
    ) -> None:
        self.settings = settings
        self.home = settings.paths.home.resolve()
        self.runner = Runner(self.home)
        self._say = say
        self.only = tuple(only)
        self._preferred = WELL_KNOWN if preferred is None else preferred
        self._ports_file = self.home / "ports.json"
        self.cluster = Cluster(settings, self.runner, self.ports())

    @property
    def embedded(self) -> tuple[str, ...]:
        """The services that run here; the others have an address in the settings."""
        s, p = self.settings, self.cluster.profile
        elsewhere = {
            "postgres": s.db.given() or p.postgres,
            "mosquitto": s.mqtt.brokers() or p.mqtt,
            "kafka": s.kafka.bootstrap or p.kafka,
        }
        waits = ("mosquitto",) if self.passive else ()
        return tuple(n for n in SERVICES if n in self.only and n not in waits and not elsewhere[n])

    @property
    def kinds(self) -> set[str]:
        """What runs here, of the cluster's servers the first word of their names."""
        return {*self.embedded, *(name.partition("-")[0] for name in self.cluster.names)}

    @property
    def passive(self) -> bool:
        """Whether another region acts, as `up` last found: no broker runs, and no program but the mirror."""
        return (self.home / regions.PASSIVE_FILE).exists()

    @property
    def secure(self) -> bool:
        """Whether every hop asks who is there: by the settings, or since this home has authorities."""
        return self.settings.secure or self._services.exists()

    @property
    def by_users(self) -> bool:
        """Whether each program is a system user of its own: in a secure home, where root starts them."""
        return self.secure and os.geteuid() == 0

    def up(self) -> Endpoints:
        """Start what does not run, create topics, roles and database, migrate; the addresses.

        Raises ServiceError naming the service that failed; the others keep running.
        """
        health = self.settings.health
        if health.port or not (health.address.is_unspecified or str(health.address) == HOST):
            raise ConfigError(
                f"a stack asks its programs on ports of its own at {HOST}: ODOGRAPH_HEALTH_PORT is 0 there, "
                f"and ODOGRAPH_HEALTH_ADDRESS {HOST} or 0.0.0.0"
            )
        self._check_secure()
        self.cluster.check()
        with self.lock():
            for folder in (self.home, self.home / "data", self.home / "config"):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o711)  # the services' users must reach their folders
            for folder in (self.home / name for name in PRIVATE):
                folder.mkdir(exist_ok=True)
                if not (self.by_users and folder.name in policy.FOLDERS):
                    folder.chmod(0o700)
            if self.by_users:
                users.share(self.home, self.settings)
            identity.ensure_keys(self.settings)
            self._verify_programs()
            # One start at a time on this machine: two would find the same port free.
            with locked(self.settings.paths.cache / "start.lock"):
                self._choose_ports()
                self.cluster.up(self._start)
                postgres.check_owner(self.settings.db)
                self._note_region()
                self._renew_identities()
                self._start(self.services().values())
            addresses = self.endpoints()
            self.furnish(addresses.logged_in(policy.OPERATOR))
            if self.settings.region.other and not self.passive:
                self._note_region()  # the other one may have been quicker
            if self.passive:
                self._make_sessions(addresses)
            write_private(self.home / ENDPOINTS_FILE, json.dumps(asdict(addresses), indent=1))
            for number in range(2, self.settings.cluster.hosts + 1):
                self._make_host(number, addresses)
        return addresses.logged_in(policy.OPERATOR)

    def _note_region(self) -> None:
        """Whether this home is passive, by the database; what must not run then is stopped."""
        region, given, mark = self.settings.region, self.settings.db.given(), self.home / regions.PASSIVE_FILE
        if region.other and self.secure and not region.other_cert_file:
            raise ConfigError(
                "ODOGRAPH_REGION_OTHER: in a secure home ODOGRAPH_REGION_OTHER_CA_FILE and _CERT_FILE say "
                "how that region's Kafka is reached"
            )
        if region.other and not given:
            raise ConfigError("ODOGRAPH_REGION_OTHER: two regions have one database: ODOGRAPH_DB_URL in both")
        found = regions.role(given["url"]) if region.name and given else None
        passive = found is not None and found.active != region.name
        if passive:  # first, while the bridge still reads: vehicles go to the other region
            self.runner.stop("mosquitto")
        if passive is not mark.exists():
            supervisor.stop_in_background(self.home)
        if found is None or not passive:
            if mark.exists() and self.ports():
                try:
                    self._make_sessions(self.endpoints())  # the broker forgets them in a week
                except ServiceError as error:
                    self._say(f"what vehicles send before the bridge is there may be lost: {error}")
            mark.unlink(missing_ok=True)
            return
        mark.touch()
        self._say(f"region {found.active} acts: this one, {region.name}, copies its log and waits")

    def host_home(self, number: int) -> Path:
        """Where the programs of one of several hosts have their home; the first one's is the stack's own."""
        return self.home / "hosts" / str(number) if number > 1 else self.home

    def _make_host(self, number: int, addresses: Endpoints) -> None:
        """A home that shares with the first one what hosts share, here by links; its ports are its own."""
        home = self.host_home(number)
        home.mkdir(parents=True, exist_ok=True)
        for name in (*SHARED, *identity.KEYS, HOME_FILE):
            link = home / name
            link.unlink(missing_ok=True)
            link.symlink_to(self.home / name)
        ports = addresses.http_ports
        own = {name: ports.get(f"{name}-{number}", port) for name, port in ports.items()}
        write_private(home / ENDPOINTS_FILE, json.dumps(asdict(replace(addresses, http_ports=own)), indent=1))

    def programs(self) -> list[Program]:
        """What runs beside the services, each with the home of its host."""
        s, ports, found = self.settings, self.ports(), []
        for program in programs(s.bridge.shards, s.cluster.hosts):
            name, _, number = program.name.partition("-")
            env: dict[str, str] = {}
            if number and name != "bridge":
                env = {"ODOGRAPH_PATHS_HOME": str(self.host_home(int(number)))}
            if name == "jobs" and s.cluster.workers:
                page = ports[program.name.replace("jobs", "maintenance")]
                env |= self.cluster.env() | {"ODOGRAPH_PATHS_LOOKUPS": f"http://{HOST}:{page}/lookups"}
            found.append(program._replace(env=env))
        own = [Program(mirror.NAME, odograph(mirror.NAME))] if s.region.other else []
        found = own if self.passive else found + own
        if not self.by_users:
            return found
        return [one._replace(command=users.started(self.home, s, one.name, one.command)) for one in found]

    def _check_secure(self) -> None:
        """Raise ConfigError for an open listener beyond loopback, ServiceError for programs to be ended."""
        address = self.settings.mqtt.address
        if self.secure and self.settings.cluster != ALONE:
            raise ConfigError("a cluster's servers ask nobody for a certificate: not in a secure home")
        if not address.is_loopback and not self.secure:
            raise ConfigError(
                f"ODOGRAPH_MQTT_ADDRESS {address}: beyond loopback vehicles are taken by certificates only: "
                "odograph up --secure"
            )
        written = read_json(self.home / ENDPOINTS_FILE)
        open_before = written and not written.get("dashboard_tls")
        runs = processes.find(self.runner.run_dir, SUPERVISOR) is not None
        if self.secure and open_before and runs:
            raise ServiceError("programs run without certificates; first: odograph down")
        if self.by_users and runs and not (self.home / users.FOLDER).exists():
            raise ServiceError("programs run as root; first: odograph down")

    def renew_identities(self, tell: bool = False) -> None:
        """Give programs and broker their certificates, and the broker who is revoked and who may do what.

        ``tell``: servers reread what is as it was, too: who wrote it may have been killed before.
        """
        with self.lock():  # of two at once the older list could be the last one written
            self._renew_identities(tell)

    def _renew_identities(self, tell: bool = False) -> None:
        if not self.secure:
            return
        services = identity.Authority(self.home, identity.SERVICES)
        for who in (*self.principals, policy.SERVER):
            ours = services.current(who, hosts=self._hosts(who))
            write_private(services.folder / f"{who}.pem", ours.certificate.read_text() + ours.key.read_text())
        found = {name: self.runner.find(name) for name in self.embedded if name != "kafka"}
        running = {name: one for name, one in found.items() if one is not None}
        for each in self.services().values() if running else ():
            if (one := running.get(each.name)) is None:
                continue
            folder = self.home / "config" / each.name
            before = {path: path.read_bytes() for path in folder.iterdir()}
            each.prepare()
            if not tell and before == {path: path.read_bytes() for path in folder.iterdir()}:
                continue
            if each.name == "mosquitto":
                mosquitto_reread(one.pid, self.runner.log(each.name))
            else:
                os.kill(one.pid, signal.SIGHUP)  # its open sessions go on
        if self.by_users:
            addresses = self.endpoints()
            for who in (name for name in self.principals if name != policy.OPERATOR):
                users.furnish(self.home, self.settings, addresses, who)

    @property
    def principals(self) -> tuple[str, ...]:
        return policy.PROGRAMS + ((policy.COPIER,) if self.settings.region.name else ())

    def _hosts(self, who: str) -> tuple[str, ...]:
        """Names and addresses of who serves; the servers share a certificate."""
        if who not in (policy.SERVER, "dashboard"):
            return ()
        serving = self.settings.mqtt if who == policy.SERVER else self.settings.dashboard
        address = str(serving.address)
        found = {HOST, "localhost", *listed(serving.hosts)}
        found |= set() if serving.address.is_unspecified else {address}
        return tuple(sorted(found | (set() if address == HOST else {socket.gethostname()})))

    def _identities(self, port: int, device_port: int) -> Secure | None:
        if not self.secure:
            return None
        mqtt, now = self.settings.mqtt, datetime.now(UTC)
        devices, services = (identity.Authority(self.home, kind) for kind in identity.KINDS)
        issued = devices.issued()
        valid = {one.name for one in issued if one.state(now) in identity.GOOD}
        named = {n: v for n, v in identity.gateways(self.home).items() if n in valid}
        gone = {one.name for one in issued if one.revoked} - valid
        files = self._server() | {"acl": policy.mosquitto_acl(mqtt.root, named, tuple(sorted(gone)))}
        for one in (devices, services):
            files |= {f"{one.kind}.pem": one.pem, f"{one.kind}.crl": one.revocations()}
        return Secure(str(mqtt.address), device_port, files, MqttBroker(HOST, port, **self._access()))

    @property
    def _dashboard_tls(self) -> str:
        return str(self._services / "dashboard.pem") if self.secure else ""

    def pages(self) -> dict[str, str]:
        """As Endpoints have them; port 0: never started."""
        chosen = self.ports()
        parts = (mirror.NAME,) if self.passive else http_parts(self.settings)
        ports = {part: chosen.get(part, 0) for part in parts}
        return Endpoints("", 0, "", "", "", "", ports, dashboard_tls=self._dashboard_tls).pages

    def _server(self) -> dict[str, str]:
        """Certificate and key of the embedded servers, by file; none where nothing asks for them."""
        if not self.secure:
            return {}
        services = identity.Authority(self.home, identity.SERVICES)
        ours = services.current(policy.SERVER, hosts=self._hosts(policy.SERVER))
        return {"server.pem": ours.certificate.read_text(), "server.key": ours.key.read_text()}

    def _access(self, who: str = policy.OPERATOR) -> dict[str, Any]:
        """How a program logs in to the secure broker: what MqttBroker holds beside host and port."""
        ours = str(self._services / f"{who}.pem")
        return {"tls": True, "ca_file": str(self.ca), "cert_file": ours, "key_file": ours}

    @property
    def _services(self) -> Path:
        return self.home / identity.FOLDER / identity.SERVICES

    @property
    def ca(self) -> Path | None:
        """By which servers show who they are; None: they do not."""
        return self._services / "ca.pem" if self.secure else None

    def install(self) -> None:
        """Make what external services hold: topics, roles, tables. Nothing is started. Idempotent.

        Raises ConfigError where the settings do not name them and every role's login.
        """
        self.furnish(endpoints(self.settings, [name for name in SETTING_OF if name != "mqtt_host"]))

    @property
    def kept(self) -> list[str]:
        """What is started again when it ends by itself; not PostgreSQL's pair, where that is a failover."""
        return [*self.embedded, *self.cluster.services()]

    def respawn(self, name: str) -> subprocess.Popen[bytes] | None:
        """Start again a service that ended by itself; None while another changes the stack."""
        with suppress(BlockingIOError), locked(self.home / LOCK_FILE, busy=BlockingIOError()):
            service = self.servers()[name]
            service.prepare()
            return self.runner.spawn(service)
        return None

    def down(self) -> list[str]:
        """Stop every service of this home; the names of those that ran."""
        stopped: list[str] = []
        with self.lock():
            alone = [n for n in (*reversed(SERVICES), *self.cluster.names) if not n.startswith("postgres-")]
            last = [name for name in alone if name in FIRST]
            with ThreadPoolExecutor(max_workers=len(alone)) as pool:
                for names in ([name for name in alone if name not in last], last):
                    ran = zip(names, pool.map(self.runner.stop, names), strict=True)
                    stopped += [name for name, did in ran if did]
            pair = self.cluster.pair.names() if self.cluster.pair is not None else ()
            stopped += [name for name in pair if self.runner.stop(name)]
            for home in (self.home, *self.home.glob("hosts/*"), *self.home.glob(f"{users.FOLDER}/*")):
                (home / ENDPOINTS_FILE).unlink(missing_ok=True)
        return stopped

    def lock(self) -> AbstractContextManager[None]:
        """One change of this stack at a time; a second one waits."""
        return locked(self.home / LOCK_FILE)

    def servers(self) -> dict[str, Service]:
        """All that run here by name, on the ports that the last start chose; none before the first one."""
        return self.services() | self.cluster.servers()

    def services(self) -> dict[str, Service]:
        """The embedded ones of these."""
        folder, chosen, made = self.settings.paths.cache, self.ports(), dict[str, Service]()
        for name in self.embedded if chosen else ():
            data, config, port = self.home / "data" / name, self.home / "config" / name, chosen[name]
            if name == "kafka":
                jars, heap_mb = cache.jars(folder, "kafka")[0].parent, self.settings.kafka.heap_mb
                options = cache.class_options(folder, "kafka")
                control, ours = chosen["kafka-controller"], self._services if self.secure else None
                own = config if self.by_users else None
                made[name] = kafka(jars, data, port, control, heap_mb, options, identities=ours, own=own)
            elif name == "postgres":
                places = (cache.rootfs(folder), data, config, port)
                made[name] = postgres.postgres(*places, self.superuser_url(), self._server())
            else:
                made[name] = self._broker(port, chosen.get(DEVICES, 0))
        return made

    def _broker(self, port: int, device_port: int) -> Service:
        root, name, terms = cache.rootfs(self.settings.paths.cache), "mosquitto", self.settings.mqtt
        places = (root, self.home / "data" / name, self.home / "config" / name)
        secure = self._identities(port, device_port)
        if secure and self.runner.find(name):  # what it tells is of its start: to read anew may lose frames
            terms = terms.model_copy(update={"log_refused": tells_refused(places[2])})
        return mosquitto(*places, port, terms, secure)

    def _make_sessions(self, addresses: Endpoints) -> None:
        """Let our broker make the bridge's sessions, at a port that no vehicle knows; it keeps them on disk.

        So it keeps what vehicles send from its first moment on, when this region comes to act.
        """
        if self.settings.mqtt.brokers():
            return
        port, home = service.free_port(self.ports().values()), self.home / "config" / "sessions"
        write_private(home / ENDPOINTS_FILE, json.dumps(asdict(replace(addresses, mqtt_port=port))))
        self.runner.start(self._broker(port, service.free_port({*self.ports().values(), port})))
        try:
            env = {**os.environ, "ODOGRAPH_PATHS_HOME": str(home)}
            command = odograph("bridge", "--prepare")
            processes.finished("the bridge's sessions cannot be made", command, SESSIONS_S, env)
        finally:
            self.runner.stop("mosquitto")
            (home / ENDPOINTS_FILE).unlink()

    def _verify_programs(self) -> None:
        """Raise ServiceError where what the services load is not what was fetched."""
        folder, kinds = self.settings.paths.cache, self.kinds
        if {"postgres", "mosquitto"} & kinds:
            cache.verify(cache.rootfs(folder), note=self._note_refusal)
        if "kafka" in kinds:
            jars = cache.jars(folder, "kafka")[0].parent
            cache.verify(jars, *cache.class_archives(folder), note=self._note_refusal)
        if "hdfs" in kinds:
            cache.verify(cache.jar_dir(folder, "hdfs"), note=self._note_refusal)
        if self.by_users and self.settings.region.other:  # the mirror's own user may not
            fetch.fetch_jars(folder, mirror.NAME, mirror.IVY)

    def _note_refusal(self, what: str) -> None:
        """As ``log.refused``; maintenance finds it when it runs again."""
        line = {"event": "refused", "who": system_user(), "what": what, "at": datetime.now(UTC).isoformat()}
        with self.runner.log(SUPERVISOR).open("a") as file:
            file.write(f"{json.dumps(line)}\n")

    def endpoints(self) -> Endpoints:
        """The addresses that follow from the ports and from the settings of external services."""
        s, chosen, words = self.settings, self.ports(), self._passwords()
        ours: dict[str, Any] = {"dashboard_tls": self._dashboard_tls}
        if not s.mqtt.brokers():
            ours |= {"mqtt_host": HOST, "mqtt_port": chosen["mosquitto"]}
            if self.secure:
                ours |= {"mqtt_access": self._access("{who}"), "device_port": chosen[DEVICES]}
        if not s.kafka.bootstrap:
            ours["kafka_bootstrap"] = kafka_address(chosen["kafka"], self._services if self.secure else None)
        if not (given := s.db.given()):
            given = {"url": postgres.url(postgres.OWNER, words["owner"], chosen["postgres"], ca=self.ca)}
        ours |= postgres.addresses(given, words)
        return replace(external(s), http_ports={part: chosen[part] for part in http_parts(s)}, **ours)

    def ports(self) -> dict[str, int]:
        """The port of every part, as the last start chose them."""
        return dict(read_json(self._ports_file))

    def superuser_url(self) -> str:
        """The embedded server's superuser, for roles and databases."""
        port, word = self.ports()["postgres"], self._passwords()["superuser"]
        return postgres.url(postgres.SUPERUSER, word, port, "postgres", self.ca)

    def _start(self, services: Iterable[Service]) -> None:
        """All at once. Raises ServiceError naming the one that failed; the others keep running."""

        def start(service: Service) -> None:
            ran = self.runner.find(service.name)
            answer = self.runner.start(service)
            same = ran is not None and self.runner.find(service.name) == ran
            self._say(f"{service.name}: {'runs already' if same else 'ready'}, {answer}")

        with ThreadPoolExecutor(max_workers=4) as pool:
            started = [pool.submit(start, service) for service in services]
        for future in started:
            future.result()

    def furnish(self, addresses: Endpoints) -> None:
        """Create roles, database, tables and topics that are missing. Raises ServiceError, ConfigError."""
        db, words = self.settings.db, self._passwords()
        if "postgres" in self.embedded:
            postgres.ensure_roles(self.superuser_url(), words)
            postgres.ensure_database(self.superuser_url(), postgres.DATABASE)
        elif db.given():
            postgres.ensure_logins(db, words)
        for name in migrate(addresses.db_owner_url) if "postgres" in self.only else ():
            self._say(f"database: applied {name}")
        if db.given():
            postgres.check_logins(db, words)
        if "postgres" in self.only:
            regions.found(self.settings.region, addresses.db_owner_url)
        if "kafka" in self.only:
            kafka = self.settings.kafka
            for name in create_topics(addresses.kafka_bootstrap, kafka.prefix, kafka):
                self._say(f"kafka: created topic {name}")
            if self.secure and "kafka" in self.embedded:
                other = self.settings.region.other_name
                wanted = policy.kafka_acls(kafka.prefix, self.settings.bridge.client_id, other)
                acl_faults(addresses.kafka_bootstrap, wanted, mend=True)

    def _passwords(self) -> postgres.Passwords:
        """Of this home; none where every role has its own address."""
        every = postgres.ROLES.keys() <= self.settings.db.given().keys()
        return postgres.Passwords() if every else postgres.passwords(self.home / "secrets.json")

    def _choose_ports(self) -> None:
        s, kept = self.settings, self.ports()
        fixed = {"mosquitto": s.mqtt.port, DEVICES: s.mqtt.device_port, "kafka": s.kafka.port}
        fixed |= {"postgres": s.db.port, **fixed_ports(s)}
        running = [r.name for r in processes.all_running(self.runner.run_dir)]
        running += ["kafka-controller"] * ("kafka" in running) + [DEVICES] * ("mosquitto" in running)
        running += [f"{name}-page" for name in running]
        chosen = {name: kept[name] for name in running if name in kept}
        devices = (DEVICES,) if self.secure else ()
        for part in (*SERVICES, "kafka-controller", *devices, *http_parts(s), *self.cluster.parts):
            if part not in chosen:
                taken = {*chosen.values(), *kept.values()} - {kept.get(part)}
                preferred = self._preferred.get(part, 0)
                chosen[part] = service.choose_port(fixed.get(part, 0), kept.get(part), preferred, taken)
        self.settings = self.cluster.settle(chosen)  # first: ports without a profile are one machine's
        write_private(self._ports_file, json.dumps(chosen, indent=1))


def http_parts(settings: Settings) -> tuple[str, ...]:
    """Processes with a health page: each shard of the bridge is one."""
    found = tuple(program.name for program in programs(settings.bridge.shards, settings.cluster.hosts))
    return (*found, mirror.NAME) if settings.region.other else found


def with_database(addresses: Endpoints, database: str) -> Endpoints:
    """The same addresses with another database of the same server."""
    named = partial(database_url.with_name, database=database)
    urls: dict[str, Any] = {key: named(getattr(addresses, key)) for key in SETTING_OF if key[:3] == "db_"}
    urls["db_program_urls"] = {name: named(url) for name, url in addresses.db_program_urls.items()}
    return replace(addresses, **urls)
