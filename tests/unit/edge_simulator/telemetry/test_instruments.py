"""What a vehicle measures of its own machine."""

import numpy as np

from edge_simulator.motion.fleet import Fleet
from edge_simulator.telemetry.instruments import Instruments
from edge_simulator.town.roads import city
from edge_simulator.vehicle import vehicles
from edge_simulator.vehicle.machine import Machine


def test_a_start_shows_in_frames_that_cover_it_and_in_no_later_one() -> None:
    streams = [np.random.default_rng([3, k]) for k in range(4)]
    specs = vehicles.Specs(vehicles.draw(streams[0], 30))
    fleet = Fleet(city(1, 48.1, 11.5), specs, streams[1])
    machine = Machine(specs, streams[2], 16.0)
    instruments = Instruments(fleet, machine, streams[3])
    cranks = ~machine.electric & (specs("motor_kw") == 0)
    fleet.state.started_s[:] = 1.0
    for second in range(13):  # stands, starts, runs for 12 s in all
        fleet.t_s, fleet.state.parked[:] = float(second), second == 0
        machine.step(fleet.state, fleet.ignition_on(), 1.0)

    def starting(frame_s: float) -> list[bool]:
        return (instruments.slow(slice(None), frame_s)["battery_voltage_v"] < 12).tolist()

    for _ in range(2):  # it is told as often as it is asked for
        assert starting(12.0) == cranks.tolist()
    assert not any(starting(11.0))
