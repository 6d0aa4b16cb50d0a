"""The town that fleets drive in unless they are told another seed or place, built before they are forked."""

from edge_simulator.town.roads import city

city(1, 48.137, 11.575)
