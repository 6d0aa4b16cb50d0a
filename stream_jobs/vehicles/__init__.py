"""What needs a memory of one vehicle: trips, stops, harsh events and the rules that last."""
