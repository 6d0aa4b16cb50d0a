"""A periodic task is tried again with back-off, and says what is wrong and since when."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry

from stream_jobs.maintenance.task import PeriodicTask, TaskMetrics


class Stop(threading.Event):
    """Waits for nothing, notes for how long it should have; set after so many waits."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        if len(self.pauses) > self._waits:
            self.set()
        return self.is_set()


class Work:
    """Fails so many times, then succeeds."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise ValueError("no such\n  column")


def test_a_task_that_fails_is_tried_again_after_a_pause_that_doubles_up_to_five_minutes() -> None:
    task, stop, registry = PeriodicTask("trends", 20.0, Work(11)), Stop(12), CollectorRegistry()
    task.run(stop, TaskMetrics(registry))
    assert stop.pauses == [20, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 20]
    assert (task.problem(), task.state.error, task.state.failures) == (None, None, 11)

    def sample(name: str) -> float | None:
        return registry.get_sample_value(f"odograph_maintenance_task_{name}", {"task": "trends"})

    assert (sample("failures_total"), sample("runs_total"), sample("failing")) == (11, 1, 0)
    assert sample("last_success_seconds")


def test_a_failing_task_names_its_error_and_since_when_it_fails() -> None:
    task = PeriodicTask("trends", 20.0, Work(99))
    task.run(Stop(3), TaskMetrics(CollectorRegistry()))
    since = task.state.failing_since
    assert since is not None
    assert task.state.run_at is not None
    assert since < task.state.run_at
    at = f"{since:%Y-%m-%d %H:%M:%S} UTC"
    assert task.problem() == f"trends: ValueError: no such column (failing since {at}, 3 failures)"
