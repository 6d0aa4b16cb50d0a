"""What breaks, when, how badly: planned from the seed, applied to the physics, told as ground truth."""

from edge_simulator.faults.events import Burst, Coded, Event
from edge_simulator.faults.fault_kind import Fault, Kind, able
from edge_simulator.faults.fault_plan import Arrivals, arrivals, plan
from edge_simulator.faults.fault_table import IMPACTS, KINDS
from edge_simulator.faults.fault_wanted import Wanted, parse, read, read_all
from edge_simulator.faults.injector import Injector

__all__ = [
    "IMPACTS", "KINDS", "Arrivals", "Burst", "Coded", "Event", "Fault", "Injector", "Kind", "Wanted", "able",
    "arrivals", "parse", "plan", "read", "read_all",
]  # fmt: skip
