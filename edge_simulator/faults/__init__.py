"""What breaks, when, how badly: planned from the seed, applied to the physics, reported as ground truth."""

from edge_simulator.faults.kinds import KINDS, Fault, markdown_table
from edge_simulator.faults.plan import Injector, Wanted, arrivals, plan

__all__ = ["KINDS", "Fault", "Injector", "Wanted", "arrivals", "markdown_table", "plan"]
