"""The scorecard: what the service found against what a simulator run says really happened."""
