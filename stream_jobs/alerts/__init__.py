"""Alerts: derived from detections, listed, acknowledged, ended and silenced."""
