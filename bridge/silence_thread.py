"""The watch over silent vehicles at work: a thread of the bridge that looks about once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from bridge.silence import Calm, Watch
from bridge.status_log import StatusLog
from infra.clients.kafka import LOST

LOOK_S: Final = 1.0
JUDGE_S: Final = 5.0
RETRY_S: Final = 2.0


class Heard(Protocol):
    """A topic that sent: whose, and when last (receive clock, ms; 0: never)."""

    @property
    def vehicle_id(self) -> str: ...  # noqa: D102
    @property
    def seen_ms(self) -> int: ...  # noqa: D102


class Listening(Protocol):
    """What the watch needs of a lane; called from its thread."""

    def heard(self) -> Iterable[Heard]:
        """The topics that sent something."""

    def listens(self) -> bool:
        """Whether what vehicles send arrives now: connected, subscribed, not held back."""

    @property
    def epoch(self) -> int:
        """Number of the connection."""


@dataclass(frozen=True, slots=True)
class SilenceConfig:
    """``topic`` is the full name of ``status``; ``owns`` says which vehicles (keys) are this bridge's."""

    bootstrap: str
    topic: str
    silent_s: float
    owns: Callable[[bytes], bool]


class SilenceThread:
    """Runs while its ``with`` block does. The first of ``lanes`` is the one that must listen."""

    def __init__(
        self, config: SilenceConfig, lanes: Iterable[Listening], registry: CollectorRegistry
    ) -> None:
        self._config = config
        self._lanes = tuple(lanes)
        self._calm = Calm()
        self._seen: dict[str, int] = {}
        self._stop = threading.Event()
        self._log = structlog.get_logger()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)
        self._silent = Gauge("odograph_bridge_silent_vehicles", "Online, and silent.", registry=registry)
        self._forgotten = Gauge(
            "odograph_bridge_silence_forgotten", "Vehicles not watched over: too many.", registry=registry
        )
        self._words = Counter(
            "odograph_bridge_status_words", "Status records in the service's name.", registry=registry
        )

    def __enter__(self) -> SilenceThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with StatusLog(self._config.bootstrap, self._config.topic) as log:
                    self._follow(log)
            except LOST as error:
                self._log.info("no watch over silent vehicles", why=str(error))
            except Exception:  # noqa: BLE001  the bridge carries messages, watch or no watch
                self._log.error("defect in the watch over silent vehicles", exc_info=True)
            self._stop.wait(0 if self._stop.is_set() else RETRY_S)

    def _follow(self, log: StatusLog) -> None:
        """Keep the log's state and judge it, until Kafka is lost or the end."""
        config = self._config
        watch = Watch(round(1000 * config.silent_s))
        every_s = min(JUDGE_S, config.silent_s / 4)
        judge_s = 0.0
        while not self._stop.is_set():
            for key, value, at_ms in log.read(min(LOOK_S, every_s)):
                if config.owns(key.encode()):
                    watch.note(key, value, at_ms)
            now_ms = time.time_ns() // 1_000_000
            self._calm.look(now_ms, self._lanes[0].listens(), self._lanes[0].epoch)
            if log.whole and time.monotonic() >= judge_s:
                judge_s = time.monotonic() + every_s
                self._look(watch)
                self._forgotten.set(watch.forgotten)
                self._words.inc(log.say(watch.judge(now_ms, self._seen, self._calm.since_ms)))
                self._silent.set(watch.silent)

    def _look(self, watch: Watch) -> None:
        """Keep what the lanes heard of the vehicles watched over: lanes forget, with too many topics."""
        seen = self._seen = {v: at_ms for v, at_ms in self._seen.items() if watch.watches(v)}
        for lane in self._lanes:
            for topic in lane.heard():
                if watch.watches(topic.vehicle_id) and topic.seen_ms > seen.get(topic.vehicle_id, 0):
                    seen[topic.vehicle_id] = topic.seen_ms
