"""Trips, stops, idling and harsh events out of one vehicle's beats: pure, a step a beat."""
