"""What needs a memory of one vehicle: trips, stops, harsh events and stateful rules."""
