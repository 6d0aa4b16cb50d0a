"""Trips, stops, idling and harsh events out of vehicles' frames: pure, a step a round of vehicles."""
