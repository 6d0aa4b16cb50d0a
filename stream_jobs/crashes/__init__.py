"""Crash records corroborated by the telemetry around them."""
