"""A Spark cluster on one machine whose hosts do not see each other's disks, and HDFS that all of them see.

A worker lives in a mount namespace of its own: home, caches, checkout, virtual environment, /tmp and the
folders of the other hosts are empty there. What a worker has, it was sent, or it lies on HDFS.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import infra
from infra.clients.db import session
from infra.stack import cache, processes
from infra.stack.fetch import fetch_jars
from infra.stack.service import HOST, free_port, port_is_free
from load_tests.drills.aggregates import accounted, balanced, start_jobs, start_stream, windows
from load_tests.drills.evidence import Log, compare, sent
from load_tests.drills.flow import Load, finish, flows
from load_tests.drills.journeys import trips
from load_tests.drills.site import Site, until
from load_tests.drills.verdict import Promise, Verdict, counts, nothing_lost
from stream_jobs.app.package import build
from stream_jobs.archive import reader
from stream_jobs.archive.manifest import archive_of

WORKERS: Final = 3
UP_S: Final = 120.0
BEGIN_S: Final = 300.0
EXECUTOR_S: Final = 30.0
DRIVER_S: Final = 60.0
AT_MOST_S: Final = 400.0
"""A recovery that takes longer ends the drill."""
PAUSE_S: Final = 5.0
JAVA: Final = ("java", "-Xmx192m", "-Dlog4j2.level=INFO", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
HDFS: Final = "org.apache.hadoop.hdfs.server"
SPARK: Final = "org.apache.spark.deploy"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
CONF: Final = {
    "spark.executor.cores": "1", "spark.executor.memory": "480m", "spark.hadoop.dfs.replication": "1",
    "spark.rpc.askTimeout": "30s", "spark.network.timeout": "60s",
}  # fmt: skip
NEWEST: Final = "SELECT coalesce(max(batch_id), -1) FROM odograph.batch_ledger WHERE query = 'telemetry'"


@dataclass(slots=True)
class Cluster:
    """The servers of one drill; ``base`` holds what belongs to no host alone."""

    site: Site
    base: Path
    ports: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """HDFS, the master, the workers, and the settings by which the jobs find them."""
        cache_dir = self.site.settings.paths.cache
        fetch_jars(cache_dir, "hdfs", Path(__file__).with_name("hdfs.xml"))
        self.ports = {name: free_port() for name in ("hdfs", "master")}
        (self.base / "conf").mkdir()
        lines = [f"{key} {value}" for key, value in CONF.items()]
        (self.base / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
        self._hdfs([*cache.jars(cache_dir, "hdfs")])
        self.master()
        for number in range(WORKERS):
            self.worker(number)
        port = self.site.endpoints.http_ports["maintenance"]
        environment = build(self.base / "environment.tar.gz")
        self.site.env.update({
            "ODOGRAPH_JOBS_MASTER": f"spark://{HOST}:{self.ports['master']}",
            "ODOGRAPH_JOBS_ENVIRONMENT": str(environment),
            "ODOGRAPH_PATHS_CHECKPOINTS": f"hdfs://{HOST}:{self.ports['hdfs']}/odograph/checkpoints",
            "ODOGRAPH_PATHS_LOOKUPS": f"http://{HOST}:{port}/lookups",
            "SPARK_CONF_DIR": str(self.base / "conf"), "SPARK_LOCAL_IP": HOST,
        })  # fmt: skip

    def _hdfs(self, jars: list[Path]) -> None:
        """NameNode and DataNode; their file system is formatted anew."""
        names = {
            "fs.defaultFS": f"hdfs://{HOST}:{self.ports['hdfs']}",
            "dfs.namenode.name.dir": f"file://{self.base}/name", "dfs.datanode.data.dir": f"file://{self.base}/data",
            "dfs.replication": "1", "dfs.permissions.enabled": "false",
            **dict.fromkeys(
                ("dfs.namenode.http-address", "dfs.datanode.address", "dfs.datanode.ipc.address",
                 "dfs.datanode.http.address"), f"{HOST}:0"),
        }  # fmt: skip
        properties = "".join(
            f"<property><name>{k}</name><value>{v}</value></property>" for k, v in names.items()
        )
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.base / "conf" / name).write_text(f"<configuration>{properties}</configuration>")
        paths = ":".join([str(self.base / "conf"), *map(str, jars), f"{cache.pyspark_jars()}/*"])
        name_node = (*JAVA, "-cp", paths, f"{HDFS}.namenode.NameNode")
        self.site.start("hdfs-format", (*name_node, "-format", "-nonInteractive")).wait(UP_S)
        self.site.start("hdfs-name", name_node)
        self.site.start("hdfs-data", (*JAVA, "-cp", paths, f"{HDFS}.datanode.DataNode"))
        until(lambda: "successfully registered" in self.site.log("hdfs-data"), UP_S, "HDFS is up")

    def master(self) -> None:
        """Start it; one that was killed knows its workers and applications from its recovery folder."""
        port = self.ports["master"]
        recovery = (
            f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.base}/recovery"
        )
        arguments = ("--host", HOST, "--port", str(port), "--webui-port", "0")
        self._spark(
            "spark-master", f"SPARK_DAEMON_JAVA_OPTS={recovery}", f"{SPARK}.master.Master", *arguments
        )
        until(lambda: not port_is_free(port), UP_S, "the Spark master is up")

    def worker(self, number: int) -> None:
        """Start a worker on a host of its own, with an address of its own: of one host Spark reads files."""
        address = f"127.0.1.{number + 1}"
        own, here, spark = self.base / "hosts" / str(number), self.base / "here", self.base / "spark"
        for folder in (own / "tmp", here, spark):
            folder.mkdir(parents=True, exist_ok=True)
        hidden = {
            Path.home(), self.site.settings.paths.cache.resolve(), Path(infra.__file__).parents[1].resolve(),
            Path(sys.prefix).resolve(), self.site.home, self.base / "hosts",
        }  # fmt: skip
        own_tmp = Path("/tmp")
        outer = sorted(p for p in hidden if not any(q in p.parents for q in (*hidden, own_tmp)))
        steps = [
            f"mount --bind {shlex.quote(str(cache.pyspark_jars().parent))} {spark}",
            f"mount --bind {own} {here}",
            f"mount --bind {here}/tmp {own_tmp}",
            *(f"mount -t tmpfs -o size=16m none {shlex.quote(str(folder))}" for folder in outer),
            f"cd {here}",
        ]
        arguments = (
            f"{SPARK}.worker.Worker", "--host", address, "--cores", "1", "--memory", "640m",
            "--webui-port", "0", "--work-dir", str(here / "work"), f"spark://{HOST}:{self.ports['master']}",
        )  # fmt: skip
        own_env = (f"SPARK_LOCAL_IP={address}", f"SPARK_HOME={spark}", f"SPARK_LOCAL_DIRS={here}/local")
        run = shlex.join(("env", *own_env, str(spark / "bin" / "spark-class"), *arguments))
        command = ("unshare", "--mount", "bash", "-c", " && ".join([*steps, f"exec {run}"]))
        self._start(f"spark-worker-{number}", command)

    def _spark(self, name: str, setting: str, *arguments: str) -> None:
        home = cache.pyspark_jars().parent
        self._start(
            name, ("env", f"SPARK_HOME={home}", setting, str(home / "bin" / "spark-class"), *arguments)
        )

    def _start(self, name: str, command: tuple[str, ...]) -> None:
        plain = {"SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "160m", "PATH": os.environ["PATH"]}
        log = self.site.home / "logs" / f"{name}.log"
        self.site.adopt(name, processes.spawn(self.site.run_dir, name, command, log, env=plain))

    def executors(self) -> list[int]:
        """Processes of all executors, those of each worker in turn."""
        workers = (self.site.pid(f"spark-worker-{number}") for number in range(WORKERS))
        return [pid for worker in workers if worker for pid in processes.tree(worker) if _is_executor(pid)]


def _is_executor(pid: int) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[0].endswith(b"java") and any(word.endswith(EXECUTOR.encode()) for word in words)
    return False


@contextlib.contextmanager
def clustered(site: Site) -> Iterator[Cluster]:
    """The cluster while the block runs."""
    base = Path(tempfile.mkdtemp(prefix="odograph-cluster-", dir="/var/tmp"))
    cluster = Cluster(site, base)
    try:
        cluster.start()
        yield cluster
    finally:
        site.end_programs()
        shutil.rmtree(base, ignore_errors=True)


def c2(site: Site, load: Load, mutant: str | None = None) -> Verdict:
    """kill -9 executors, a worker, the master and the driver, while frames flow."""
    with clustered(site) as cluster:
        log = Log(site.settings, site.endpoints)
        log.begin_here("telemetry")
        start_jobs(site, mutant)
        site.bridge()
        site.simulate(
            "c2",
            *Load(load.rate, load.duration_s, load.seed).arguments("--late", "0.05", "--duplicate", "0.05"),
        )
        flows(site, "c2", load.rate, BEGIN_S)
        until(lambda: len(cluster.executors()) == WORKERS, UP_S, "an executor a worker")
        found: dict[str, list[float]] = {}
        if mutant is None:
            found = _killed(cluster, load.times)
        finish(site, "c2", load.duration_s + BEGIN_S)
        ledger = balanced(site, AT_MOST_S if mutant is None else 2 * DRIVER_S)
        written = sent(site.home, "c2")
        checked = compare(log, written)
        worst = {name: max(times) for name, times in found.items()}
        promises = (
            *nothing_lost(checked),
            accounted(ledger),
            windows(site, log, [vehicle for vehicle, _, _ in written.frames], roads=True).promise(),
            trips(site, log),
            _archived(site, log),
            Promise(
                f"executors back within {EXECUTOR_S:g} s",
                worst.get("executor", 0) <= EXECUTOR_S,
                str(found.get("executor")),
            ),
            Promise(
                f"the driver back within {DRIVER_S:g} s",
                worst.get("driver", 0) <= DRIVER_S,
                str(found.get("driver")),
            ),
        )
        return Verdict("c2", promises, counts(checked) | {f"{n}_back_s": t for n, t in found.items()}, mutant)


def _killed(cluster: Cluster, times: int) -> dict[str, list[float]]:
    """Kill one after the other; how long until all was whole and a batch behind the kill was in [s]."""
    site = cluster.site
    found: dict[str, list[float]] = {"executor": [], "worker": [], "master": [], "driver": []}

    def worker() -> None:
        site.kill_group("spark-worker-0")
        cluster.worker(0)

    def master() -> None:
        site.kill_group("spark-master")
        cluster.master()

    def driver() -> None:
        site.kill_group("jobs")
        start_stream(site)

    def executor() -> None:
        os.kill(cluster.executors()[0], signal.SIGKILL)

    for name, kill in (
        *[("executor", executor)] * times,
        ("worker", worker),
        ("master", master),
        ("driver", driver),
    ):
        site.say(f"kill -9: {name}")
        found[name].append(_recovered(cluster, kill))
        time.sleep(PAUSE_S)
    return found


def _recovered(cluster: Cluster, kill: Callable[[], None]) -> float:
    site = cluster.site
    begun_s = time.monotonic()
    kill()
    before = _newest(site)
    # The batch under way may have been through its tasks; the next one began without what was killed.
    until(
        lambda: len(cluster.executors()) == WORKERS and _newest(site) >= before + 2,
        AT_MOST_S,
        "it is whole again",
    )
    return round(time.monotonic() - begun_s, 1)


def _newest(site: Site) -> int:
    with session(site.endpoints.db_owner_url) as connection:
        row = connection.execute(NEWEST).fetchone()
    return int(row[0]) if row else -1


def _archived(site: Site, log: Log) -> Promise:
    """The archive by its manifest, which the reader holds against the files."""
    entries = [file.entry for file in reader.files(archive_of(site.home))]
    stretches = sorted(
        (o.partition, o.first, o.last, o.count) for e in entries if e is not None for o in e.offsets
    )
    rows = sum(count for *_, count in stretches)
    apart = all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(stretches))
    whole = None not in entries and apart and rows == log.appended("telemetry")
    return Promise(
        "the archive has each record once",
        whole,
        f"{rows} of {log.appended('telemetry')} in {len(entries)} files",
    )
