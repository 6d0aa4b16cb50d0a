"""Rules: their model, what they say of frames, the detectors of stateful rules, comparison with peers."""
