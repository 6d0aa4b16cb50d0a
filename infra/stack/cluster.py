"""Several of each service on this machine, as on hosts of their own: none sees another one's disk.

``odograph cluster up`` and the drills of several hosts start them. A server in Java lives in a mount
namespace of its own: home, caches, checkout, virtual environment, /tmp and the folders of the other hosts are
empty there. PostgreSQL and Mosquitto live in a root file system of their own anyway.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

import infra
from infra.contract.errors import ConfigError, ServiceError
from infra.settings.sections import DB_URLS, Profile
from infra.settings.settings import HOME_FILE, Sections, Settings
from infra.stack import cache, fetch, postgres, probes, service
from infra.stack.kafka import Node, kafka, kafka_role, new_cluster_id
from infra.stack.mosquitto import mosquitto
from infra.stack.postgres_pair import PostgresPair
from infra.stack.rootfs import apart
from infra.stack.service import HOST, Runner, Service
from infra.stack.supervisor import odograph

JAVA: Final = ("java", "-Xmx192m", "-Dlog4j2.level=INFO", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
HDFS: Final = "org.apache.hadoop.hdfs.server"
SPARK: Final = "org.apache.spark.deploy"
SPARK_HOME: Final = "/mnt/spark"
CONF: Final = {
    "spark.executor.cores": "1", "spark.executor.memory": "480m", "spark.hadoop.dfs.replication": "1",
    "spark.rpc.askTimeout": "30s", "spark.network.timeout": "60s",
    "spark.executor.logs.rolling.strategy": "size", "spark.executor.logs.rolling.maxSize": "20971520",
    "spark.executor.logs.rolling.maxRetainedFiles": "2",
}  # fmt: skip
WORKER_MB: Final = 640
"""Of a worker, for each driver's executor on it."""
CLEAN_UP: Final = " ".join(
    f"-Dspark.worker.cleanup.{key}" for key in ("enabled=true", "interval=300", "appDataTtl=300")
)
"""What a driver that has ended left on a worker, 0.7 GB, goes after 5 min."""
FORMAT_S: Final = 60
PACK_S: Final = 300
ASK_S: Final = 5.0
UP_S: Final = 60.0
POLL_S: Final = 0.1
KAFKA_MB: Final = 384
FIRST: Final = ("kafka-controller", "hdfs-name", "spark-master")
"""What others need at their start, and at their end."""


ALONE: Final = Profile()


class Cluster:
    """The servers of the settings' profile in one home. ``pair`` are the two of PostgreSQL, if any."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self.profile, self._say = settings, settings.cluster, say
        self._cache, self.home = settings.paths.cache.resolve(), settings.paths.home.resolve()
        self.base = self.home / "servers"
        self.runner = Runner(self.home)
        self._ports = service.kept_ports(self.base / "ports.json")
        self.pair: PostgresPair | None = None
        if self.profile.postgres:
            words = postgres.passwords(self.home / "secrets.json")
            self.pair = PostgresPair(self.home, self._cache, self.runner, words, synchronous=True)
            if self._ports:
                self.pair.know_ports((self._ports["postgres-1"], self._ports["postgres-2"]))

    @property
    def names(self) -> list[str]:
        """Of all servers, those first that others need."""
        p = self.profile
        spark = ["hdfs-name", "spark-master", "hdfs-data"] if p.workers else []
        more = {"kafka": p.kafka, "mosquitto": p.mqtt, "spark-worker": p.workers, "postgres": p.postgres}
        numbered = [f"{name}-{n}" for name, count in more.items() for n in range(1, count + 1)]
        return (["kafka-controller"] if p.kafka else []) + spark + numbered

    def up(self) -> Settings:
        """Start what does not run; the settings with their addresses, which the home keeps.

        Raises ServiceError naming the server that failed, ConfigError where it cannot be as the settings say.
        """
        if self.profile == ALONE:
            return self._settings
        self._check()
        self._fetch()
        self.base.mkdir(parents=True, exist_ok=True)
        for folder in (self.home, self.base):
            folder.chmod(0o711)  # the services' users must reach their folders
        self._choose_ports()
        made = self.services()
        first = [name for name in made if name in FIRST]
        if self.profile.workers:
            self._configure_spark()
        with ThreadPoolExecutor(max_workers=4) as pool:
            for names in (first, [name for name in made if name not in first]):
                for answer in [pool.submit(self._start, made[name]) for name in names]:
                    answer.result()
        end = time.monotonic() + UP_S
        while self.profile.kafka and not self._all_brokers(last=time.monotonic() > end):
            time.sleep(POLL_S)
        if self.pair is not None:
            self.pair.begin((self._ports["postgres-1"], self._ports["postgres-2"]))
        kept = {"cluster": self.profile.model_dump(), "bridge": {"shards": self._settings.bridge.shards}}
        postgres.write_private(self.home / HOME_FILE, toml(kept | self.sections()))
        return self._settings.changed(self.sections())

    def _check(self) -> None:
        """Raise ConfigError where the home holds other data, or the settings name servers of their own."""
        file, s = self.home / HOME_FILE, self._settings
        kept: dict[str, Any] = tomllib.loads(file.read_text()) if file.exists() else {}
        servers = partial(Profile.model_dump, exclude={"hosts"})
        before = Profile(**kept.get("cluster", {}))
        if (self.home / "ports.json").exists() and servers(before) != servers(self.profile):
            raise ConfigError(
                f"{self.home} holds the data of other servers ({before}; wanted: {self.profile}), which stay "
                "there: for others name another home, ODOGRAPH_PATHS_HOME"
            )
        ours = [("mqtt", "url")] * bool(self.profile.mqtt) + [("kafka", "bootstrap")] * bool(
            self.profile.kafka
        )
        ours += [("db", key) for key in DB_URLS] * bool(self.pair)
        for section, key in ours:
            value = getattr(getattr(s, section), key)
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if text not in ("", kept.get(section, {}).get(key)):
                raise ConfigError(
                    f"ODOGRAPH_{section}_{key}".upper() + ": it names servers elsewhere, and the cluster has "
                    "its own; leave it out, or start none of these: odograph cluster up --help"
                )

    def down(self) -> list[str]:
        """Stop every server; the names of those that ran."""
        servers = [name for name in self.names if not name.startswith("postgres")]
        ran: list[str] = []
        with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
            for last in (False, True):
                names = [name for name in servers if (name in FIRST) is last]
                ran += [
                    name for name, did in zip(names, pool.map(self.runner.stop, names), strict=True) if did
                ]
        pair = [] if self.pair is None else self.pair.names()
        return ran + [name for name in pair if self.runner.stop(name)]

    def sections(self) -> Sections:
        """The settings by which programs find the servers."""
        found: Sections = {}
        if self.profile.kafka:
            found["kafka"] = {"bootstrap": self._hosts("kafka", self.profile.kafka)}
        if self.profile.mqtt:
            found["mqtt"] = {"url": f"mqtt://{self._hosts('mosquitto', self.profile.mqtt)}"}
        if self.pair is not None:
            found["db"] = {"url": self.pair.url()}
        if self.profile.workers:
            found["paths"] = {"checkpoints": f"hdfs://{HOST}:{self._ports['hdfs-name']}/odograph/checkpoints"}
        return found

    def env(self) -> dict[str, str]:
        """What the driver of the stream jobs needs in its environment besides."""
        if not self.profile.workers:
            return {}
        conf = self.base / "conf"
        return {
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": HOST,
            "ODOGRAPH_JOBS_MASTER": f"spark://{HOST}:{self._ports['spark-master']}",
            "ODOGRAPH_JOBS_ENVIRONMENT": str(conf / "environment.tar.gz"),
        }

    def services(self) -> dict[str, Service]:
        """By name, without PostgreSQL's; none where no ports were chosen yet."""
        if not self._ports:
            return {}
        made: dict[str, Service] = {}
        if self.profile.kafka:
            made["kafka-controller"] = self._kafka("kafka-controller", 1)
        if self.profile.workers:
            made |= self._hdfs() | {"spark-master": self._spark_master()}
        for n in range(1, self.profile.kafka + 1):
            made[f"kafka-{n}"] = self._kafka(f"kafka-{n}", n + 1)
        for n in range(1, self.profile.mqtt + 1):
            name, mqtt = f"mosquitto-{n}", self._settings.mqtt
            limits = (mqtt.max_queued_messages, mqtt.autosave_s, mqtt.max_message_bytes)
            places = (cache.rootfs(self._cache), self.base / name, self.home / "config" / name)
            made[name] = replace(mosquitto(*places, self._ports[name], *limits), name=name)
        for n in range(1, self.profile.workers + 1):
            made[f"spark-worker-{n}"] = self._spark_worker(n)
        return made

    def servers(self) -> dict[str, Service]:
        """All by name, PostgreSQL's too."""
        nodes = () if self.pair is None or not self._ports else (self.pair.primary, self.pair.standby)
        return self.services() | {node.name: self.pair.service(node) for node in nodes if self.pair}

    def role(self, name: str) -> str:
        """What a server that answers is to the others of its kind, where that may change; ServiceError."""
        if name.startswith("postgres") and self.pair is not None:
            return self.pair.role(name)
        if name.startswith("kafka-") and name != "kafka-controller":
            return kafka_role(self._hosts("kafka", self.profile.kafka), int(name.partition("-")[2]) + 1)
        return ""

    def _fetch(self) -> None:
        folder = self._cache
        fetch.fetch_all(folder, ("kafka", "postgres", "mosquitto"))
        if self.profile.kafka:
            cache.verify(cache.jars(folder, "kafka")[0].parent, *cache.class_archives(folder))
        if self.profile.mqtt or self.profile.postgres:
            cache.verify(cache.rootfs(folder))
        if self.profile.workers:
            fetch.fetch_jars(folder, "hdfs", Path(__file__).with_name("hdfs.xml"))
            cache.verify(cache.jar_dir(folder, "hdfs"))

    def _all_brokers(self, *, last: bool) -> bool:
        """Topics are made for as many brokers as there are; raises ServiceError at the ``last`` look."""
        try:
            probes.kafka_cluster(self._hosts("kafka", self.profile.kafka), self.profile.kafka)
        except ServiceError:
            if last:
                raise
            return False
        return True

    def _hosts(self, name: str, count: int) -> str:
        return ",".join(f"{HOST}:{self._ports[f'{name}-{n}']}" for n in range(1, count + 1))

    def _choose_ports(self) -> None:
        path = self.base / "ports.json"
        kept, chosen = service.kept_ports(path), dict[str, int]()
        for name in [
            *self.names,
            *(f"{name}-page" for name in self.names if name.startswith(("spark", "hdfs"))),
        ]:
            running = name in kept and self.runner.find(name.removesuffix("-page")) is not None
            taken = {*chosen.values(), *kept.values()} - {kept.get(name)}
            chosen[name] = kept[name] if running else service.choose_port(0, kept.get(name), 0, taken)
        path.write_text(json.dumps(chosen))
        self._ports = chosen

    def _start(self, wanted: Service) -> None:
        self._say(f"{wanted.name}: {self.runner.start(wanted)}")

    def _kafka(self, name: str, number: int) -> Service:
        file = self.base / "kafka-cluster-id"
        if not file.exists():
            file.write_text(new_cluster_id())
        role = "controller" if number == 1 else "broker"
        node = Node(role, number, self.profile.kafka, file.read_text())
        jars, own = cache.jars(self._cache, "kafka")[0].parent, self.base / name
        classes = cache.class_options(self._cache, "kafka")
        ports = (self._ports[name], self._ports["kafka-controller"])
        made = kafka(jars, own, *ports, KAFKA_MB if number > 1 else KAFKA_MB // 2, classes, node)
        shown = (jars, *((cache.class_dir(self._cache),) if classes else ()))
        return replace(made, name=name, command=self._apart(own, made.command, shown))

    def _hdfs(self) -> dict[str, Service]:
        """NameNode and DataNode, one of each; what they hold is formatted at the first start."""
        conf, jars = self.base / "conf", cache.jars(self._cache, "hdfs")
        paths = ":".join([str(conf), *map(str, jars), f"{SPARK_HOME}/jars/*"])
        page, made = self._ports["hdfs-name-page"], {}
        for name, program in (("hdfs-name", "namenode.NameNode"), ("hdfs-data", "datanode.DataNode")):
            own, java = self.base / name, (*JAVA, "-cp", paths, f"{HDFS}.{program}")
            command = self._apart(own, java, (conf, jars[0].parent))
            lives = partial(_name_node, page, 0 if name == "hdfs-name" else 1)
            prepare = partial(self._write_hdfs_conf, (*command, "-format", "-nonInteractive"))
            first = prepare if name == "hdfs-name" else lambda: None
            made[name] = Service(name, command, self._ports[name], "", lives, first)
        return made

    def _write_hdfs_conf(self, format_command: Sequence[str]) -> None:
        conf, name, data = self.base / "conf", self.base / "hdfs-name", self.base / "hdfs-data"
        texts = {
            "fs.defaultFS": f"hdfs://{HOST}:{self._ports['hdfs-name']}",
            "dfs.namenode.name.dir": f"file://{name}/disk", "dfs.datanode.data.dir": f"file://{data}/disk",
            "dfs.replication": "1", "dfs.permissions.enabled": "false",
            "dfs.namenode.http-address": f"{HOST}:{self._ports['hdfs-name-page']}",
            "dfs.datanode.address": f"{HOST}:{self._ports['hdfs-data']}",
            **dict.fromkeys(("dfs.datanode.ipc.address", "dfs.datanode.http.address"), f"{HOST}:0"),
        }  # fmt: skip
        rows = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in texts.items())
        for file in ("core-site.xml", "hdfs-site.xml"):
            (conf / file).write_text(f"<configuration>{rows}</configuration>")
        if not (name / "disk").exists():
            _run("hdfs: the format", format_command, FORMAT_S)

    def _configure_spark(self) -> None:
        """What drivers are given: Spark's defaults, and the workers' environment as it is now."""
        conf = self.base / "conf"
        conf.mkdir(exist_ok=True)
        most = {"spark.cores.max": str(self.profile.workers)}  # another host's driver has as much
        lines = "".join(f"{key} {value}\n" for key, value in (CONF | most).items())
        (conf / "spark-defaults.conf").write_text(lines)
        if not self.runner.find("spark-master"):
            _run(
                "the workers' environment",
                odograph("jobs", "package", str(conf / "environment.tar.gz")),
                PACK_S,
            )

    def _spark_master(self) -> Service:
        """One that was killed knows its workers and applications from its recovery folder."""
        own, port, page = (
            self.base / "spark-master",
            self._ports["spark-master"],
            self._ports["spark-master-page"],
        )
        recovery = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={own}/recovery"
        words = ("--host", HOST, "--port", str(port), "--webui-port", str(page))
        command = self._spark(
            own, HOST, f"{SPARK}.master.Master", words, f"SPARK_DAEMON_JAVA_OPTS={recovery}"
        )
        return Service("spark-master", command, port, "", partial(_page, HOST, page, "status"), lambda: None)

    def _spark_worker(self, number: int) -> Service:
        """With an address of its own: of one host Spark reads files."""
        name, address = f"spark-worker-{number}", f"127.0.1.{number}"
        own, page = self.base / name, self._ports[f"{name}-page"]
        words = (
            "--host", address, "--port", str(self._ports[name]), "--cores", str(self.profile.hosts),
            "--memory", f"{WORKER_MB * self.profile.hosts}m", "--webui-port", str(page),
            "--work-dir", str(own / "work"), f"spark://{HOST}:{self._ports['spark-master']}",
        )  # fmt: skip
        settings = (f"SPARK_LOCAL_DIRS={own}/local", f"SPARK_WORKER_OPTS={CLEAN_UP}")
        command = self._spark(own, address, f"{SPARK}.worker.Worker", words, *settings)
        return Service(
            name, command, self._ports[name], "", partial(_page, address, page, "id"), lambda: None
        )

    def _spark(
        self, own: Path, address: str, program: str, words: Sequence[str], *settings: str
    ) -> tuple[str, ...]:
        plain = {"SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "160m", "SPARK_HOME": SPARK_HOME}
        env = ("env", "-i", f"PATH={os.environ['PATH']}", *(f"{k}={v}" for k, v in plain.items()), *settings)
        return self._apart(own, (*env, f"{SPARK_HOME}/bin/spark-class", program, *words))

    def _apart(self, own: Path, command: Sequence[str], shown: Sequence[Path] = ()) -> tuple[str, ...]:
        """``command`` where it sees its ``own`` folder, PySpark and what is ``shown``, and no other one."""
        (own / "tmp").mkdir(parents=True, exist_ok=True)
        there = {own / "tmp": Path("/tmp"), **{each: each for each in (own, *shown)}}  # noqa: S108
        there[cache.pyspark_jars().parent] = Path(SPARK_HOME)
        hidden = {
            Path.home(), self._cache, Path(infra.__file__).parents[1].resolve(),
            Path(sys.prefix).resolve(), self.home,
        }  # fmt: skip
        return apart(there, hidden, own, command)


def toml(sections: Sections) -> str:
    """Texts, numbers and whether are written as JSON writes them."""
    tables = {
        name: "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for name, values in sections.items()
    }
    return "\n".join(f"[{name}]\n{text}" for name, text in tables.items())


def _run(what: str, command: Sequence[str], limit_s: float) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode != 0:
        raise ServiceError(f"{what} failed: {(done.stderr or done.stdout)[-2000:].strip()}")


def _asked(url: str) -> dict[str, Any]:
    """The JSON of a server's page, which is there before what it shows; raises ServiceError."""
    try:
        with urllib.request.urlopen(url, timeout=ASK_S) as answer:  # noqa: S310  our own http addresses
            return dict(json.loads(answer.read()))
    except (OSError, ValueError) as error:
        raise ServiceError(f"{url}: {error}") from error


def _page(host: str, port: int, key: str) -> str:
    """What a server of Spark says of itself; raises ServiceError."""
    return f"{host}, {_asked(f'http://{host}:{port}/json/')[key]}"


def _name_node(port: int, least: int) -> str:
    """Raises ServiceError unless the NameNode answers and knows of so many DataNodes that live."""
    query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
    beans = _asked(f"http://{HOST}:{port}/jmx?{query}")["beans"]
    live = int(beans[0]["NumLiveDataNodes"]) if beans else -1
    if live < least:
        raise ServiceError(f"the NameNode knows of {live} DataNodes")
    return f"{live} DataNodes live"
