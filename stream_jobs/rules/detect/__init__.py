"""Detectors of stateful rules: frames of vehicles in, detections out; pure."""
