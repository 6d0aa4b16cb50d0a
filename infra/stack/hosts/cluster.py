"""Several of each service on this machine, as on hosts of their own: none sees another one's disk.

``odograph cluster up`` and the drills of several hosts start them. A server in Java lives in a mount
namespace of its own: home, caches, checkout, virtual environment, /tmp and the folders of the other hosts are
empty there. PostgreSQL and Mosquitto live in a root file system of their own anyway.
"""

import json
import os
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Final

from pydantic import SecretStr

import infra
from infra.clients.waiting import looks
from infra.contract.errors import ConfigError, ServiceError, raised_as
from infra.settings.files import write_private
from infra.settings.sections import DB_URLS, Profile
from infra.settings.settings import HOME_FILE, Sections, Settings
from infra.stack import probes, processes
from infra.stack.downloads import cache
from infra.stack.downloads.rootfs import apart
from infra.stack.kafka import ID_BYTES, Node, kafka, kafka_role
from infra.stack.mosquitto import mosquitto
from infra.stack.postgres import PostgresPair
from infra.stack.service import HOST, Runner, Service
from infra.stack.supervisor import odograph

LIGHT: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
JAVA: Final = ("java", "-Xmx192m", "-Dlog4j2.level=INFO", *LIGHT)
HDFS: Final = "org.apache.hadoop.hdfs.server"
SPARK: Final = "org.apache.spark.deploy"
SPARK_HOME: Final = "/mnt/spark"
SPARK_CONF: Final = Path(__file__).with_name("spark-defaults.conf")
HDFS_CONF: Final = Path(__file__).with_name("hdfs-site.xml")
WORKER_MB: Final = 640  # of a worker, for each driver's executor on it
CLEAN_UP: Final = " ".join(
    f"-Dspark.worker.cleanup.{key}" for key in ("enabled=true", "interval=300", "appDataTtl=300")
)
"""What a driver that has ended left on a worker, 0.7 GB, goes after 5 min."""
ENVIRONMENT: Final = "environment.pack"
FORMAT_S: Final = 60
PACK_S: Final = 300
UP_S: Final = 60.0
POLL_S: Final = 0.1
KAFKA_MB: Final = 384
FIRST: Final = ("kafka-controller", "hdfs-name", "spark-master")  # what others need from start to end


ALONE: Final = Profile()


class Cluster:
    """The servers of the settings' profile in one home. ``pair`` are the two of PostgreSQL, if any.

    ``ports``: those that the last start chose, by name.
    """

    def __init__(self, settings: Settings, runner: Runner, ports: Mapping[str, int]) -> None:
        self._settings, self.profile, self.runner = settings, settings.cluster, runner
        self._cache, self.home = settings.paths.cache.resolve(), settings.paths.home.resolve()
        self.base = self.home / "servers"
        self._ports = dict(ports)
        self.pair: PostgresPair | None = None
        if self.profile.postgres:
            self.pair = PostgresPair(self.home, self._cache, self.runner, self._ports)

    @property
    def names(self) -> list[str]:
        """Of all servers, those first that others need."""
        p = self.profile
        spark = ["hdfs-name", "spark-master", "hdfs-data"] if p.workers else []
        more = {"kafka": p.kafka, "mosquitto": p.mqtt, "spark-worker": p.workers, "postgres": p.postgres}
        numbered = [f"{name}-{n}" for name, count in more.items() for n in range(1, count + 1)]
        return (["kafka-controller"] if p.kafka else []) + spark + numbered

    @property
    def parts(self) -> list[str]:
        """What has a port: the servers, and the pages of some."""
        return self.names + [f"{name}-page" for name in self.names if name.startswith(("spark", "hdfs"))]

    def settle(self, ports: Mapping[str, int]) -> Settings:
        """The settings with the servers' addresses on these ports, which the home keeps."""
        self._ports.update(ports)  # the pair's too
        if self.profile == ALONE:
            return self._settings
        kept = {"cluster": self.profile.model_dump(), "bridge": {"shards": self._settings.bridge.shards}}
        write_private(self.home / HOME_FILE, toml(kept | self.sections()))
        return self._settings.changed(self.sections())

    def up(self, start: Callable[[Iterable[Service]], None]) -> None:
        """Let ``start`` bring up what does not run, in order. Raises ServiceError."""
        if self.profile == ALONE:
            return
        self.base.mkdir(exist_ok=True)
        self.base.chmod(0o711)  # the services' users must reach their folders
        made = self.services()
        if self.profile.workers:
            self._configure_spark()
        for first in (True, False):
            start(one for name, one in made.items() if (name in FIRST) is first)
        for last in looks(UP_S, POLL_S) if self.profile.kafka else ():
            try:  # topics are made for as many brokers as there are
                probes.kafka_cluster(self._hosts("kafka", self.profile.kafka), self.profile.kafka)
                break
            except ServiceError:
                if last:
                    raise
        if self.pair is not None:
            self.pair.begin()

    def check(self) -> None:
        """Raise ConfigError where the home holds other data, or the settings name servers of their own."""
        if self.profile == ALONE:
            return
        file, s, p = self.home / HOME_FILE, self._settings, self.profile
        kept: dict[str, Any] = tomllib.loads(file.read_text()) if file.exists() else {}
        servers = partial(Profile.model_dump, exclude={"hosts"})
        before = Profile(**kept.get("cluster", {}))
        if (self.home / "ports.json").exists() and servers(before) != servers(self.profile):
            raise ConfigError(
                f"{self.home} holds the data of other servers ({before}; wanted: {self.profile}), which stay "
                "there: for others name another home, ODOGRAPH_PATHS_HOME"
            )
        ours = [("mqtt", "url")] * bool(p.mqtt) + [("kafka", "bootstrap")] * bool(p.kafka)
        ours += [("db", key) for key in DB_URLS] * bool(self.pair)
        for section, key in ours:
            value = getattr(getattr(s, section), key)
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            if text not in ("", kept.get(section, {}).get(key)):
                raise ConfigError(
                    f"ODOGRAPH_{section}_{key}".upper() + ": it names servers elsewhere, and the cluster has "
                    "its own; leave it out, or start none of these: odograph cluster up --help"
                )

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
        """What the driver of the stream jobs needs in its environment besides.

        Spark's defaults by their file: a folder of settings would be on its class path, and Java then leaves
        the class archive alone.
        """
        if not self.profile.workers:
            return {}
        conf = self.base / "conf"
        defaults = shlex.quote(str(conf / SPARK_CONF.name))
        return {
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {defaults} pyspark-shell",
            "SPARK_LOCAL_IP": HOST,
            "ODOGRAPH_JOBS_MASTER": f"spark://{HOST}:{self._ports['spark-master']}",
            "ODOGRAPH_JOBS_ENVIRONMENT": str(conf / ENVIRONMENT),
            "ODOGRAPH_JOBS_ENVIRONMENT_CACHE": "../../../environments",  # beside a worker's work folder
        }

    def services(self) -> dict[str, Service]:
        """By name, without PostgreSQL's; none where no ports were chosen yet."""
        if not {*self.names} <= self._ports.keys():
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
            places = (cache.rootfs(self._cache), self.base / name, self.home / "config" / name)
            made[name] = replace(mosquitto(*places, self._ports[name], mqtt), name=name)
        for n in range(1, self.profile.workers + 1):
            made[f"spark-worker-{n}"] = self._spark_worker(n)
        return made

    def servers(self) -> dict[str, Service]:
        """All by name, PostgreSQL's too."""
        if self.pair is None or not {*self.pair.names()} <= self._ports.keys():
            return self.services()
        return self.services() | {name: self.pair.service(name) for name in self.pair.names()}

    def role(self, name: str) -> str:
        """What a server that answers is to the others of its kind, where that may change; ServiceError."""
        if name.startswith("postgres") and self.pair is not None:
            return self.pair.role(name)
        if name.startswith("kafka-") and name != "kafka-controller":
            return kafka_role(self._hosts("kafka", self.profile.kafka), int(name.partition("-")[2]) + 1)
        return ""

    def _hosts(self, name: str, count: int) -> str:
        return ",".join(f"{HOST}:{self._ports[f'{name}-{n}']}" for n in range(1, count + 1))

    def _kafka(self, name: str, number: int) -> Service:
        file = self.base / "kafka-cluster-id"
        if not file.exists():
            file.write_text(token_urlsafe(ID_BYTES))
        node = Node("controller" if number == 1 else "broker", number, self.profile.kafka, file.read_text())
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
            made[name] = Service(name, command, self._ports[name], lives)
        write = partial(self._write_hdfs_conf, (*made["hdfs-name"].command, "-format", "-nonInteractive"))
        made["hdfs-name"] = replace(made["hdfs-name"], prepare=write)
        return made

    def _write_hdfs_conf(self, format_command: Sequence[str]) -> None:
        names = {"host": HOST, "base": self.base, "ports": self._ports}
        for file in ("core-site.xml", "hdfs-site.xml"):
            (self.base / "conf" / file).write_text(HDFS_CONF.read_text().format(**names))
        if not (self.base / "hdfs-name" / "disk").exists():
            processes.finished("hdfs: the format failed", format_command, FORMAT_S)

    def _configure_spark(self) -> None:
        """What drivers are given: Spark's defaults, and the workers' environment as it is now."""
        conf = self.base / "conf"
        conf.mkdir(exist_ok=True)
        (conf / SPARK_CONF.name).write_text(SPARK_CONF.read_text().format(workers=self.profile.workers))
        if not self.runner.find("spark-master"):
            command = odograph("jobs", "package", str(conf / ENVIRONMENT))
            processes.finished("the workers' environment failed", command, PACK_S)

    def _spark_master(self) -> Service:
        """One that was killed knows its workers and applications from its recovery folder."""
        recovery = f"-Dspark.deploy.recoveryDirectory={self.base}/spark-master/recovery"
        options = f"SPARK_MASTER_OPTS=-Dspark.deploy.recoveryMode=FILESYSTEM {recovery}"
        return self._spark("spark-master", HOST, "master.Master", "status", (), options)

    def _spark_worker(self, number: int) -> Service:
        """With an address of its own: of one host Spark reads files."""
        name = f"spark-worker-{number}"
        words = (
            "--cores", str(self.profile.hosts), "--memory", f"{WORKER_MB * self.profile.hosts}m",
            "--work-dir", f"{self.base / name}/work", f"spark://{HOST}:{self._ports['spark-master']}",
        )  # fmt: skip
        settings = (f"SPARK_LOCAL_DIRS={self.base / name}/local", f"SPARK_WORKER_OPTS={CLEAN_UP}")
        return self._spark(name, f"127.0.1.{number}", "worker.Worker", "id", words, *settings)

    def _spark(
        self, name: str, address: str, program: str, said: str, words: Sequence[str], *settings: str
    ) -> Service:
        """A server of Spark; ``said``: what of its page shows that it answers."""
        own, port, page = self.base / name, self._ports[name], self._ports[f"{name}-page"]
        plain = {"SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "160m", "SPARK_HOME": SPARK_HOME}
        plain |= dict.fromkeys(("SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"), " ".join(LIGHT))
        env = ("env", "-i", f"PATH={os.environ['PATH']}", *(f"{k}={v}" for k, v in plain.items()), *settings)
        places = ("--host", address, "--port", str(port), "--webui-port", str(page))
        command = (*env, f"{SPARK_HOME}/bin/spark-class", f"{SPARK}.{program}", *places, *words)
        return Service(name, self._apart(own, command), port, partial(_page, address, page, said))

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
    """Texts, numbers and whether are written as JSON writes them, but for pairs of surrogates, and DEL."""
    lines: list[str] = []
    for name, values in sections.items():
        pairs = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
        lines += [f"[{name}]", *pairs, ""]
    return "\n".join(lines).replace("\x7f", "\\u007f")


def _asked(where: str, path: str) -> dict[str, Any]:
    """The JSON of a server's page, which is there before what it shows; raises ServiceError."""
    with raised_as(ServiceError, f"{where}{path}", OSError, ValueError):
        return dict(json.loads(probes.got(where, path)[1]))


def _page(host: str, port: int, key: str) -> str:
    """What a server of Spark says of itself; raises ServiceError."""
    return f"{host}, {_asked(f'{host}:{port}', '/json/')[key]}"


def _name_node(port: int, least: int) -> str:
    """Raises ServiceError unless the NameNode answers and knows of so many DataNodes that live."""
    beans = _asked(f"{HOST}:{port}", "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")["beans"]
    live = int(beans[0]["NumLiveDataNodes"]) if beans else -1
    if live < least:
        raise ServiceError(f"the NameNode knows of {live} DataNodes")
    return f"{live} DataNodes live"
