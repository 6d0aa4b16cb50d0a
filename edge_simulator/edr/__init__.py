"""Event data recorders: pulses, trigger, restraints, memory, records, and keeping them until acknowledged."""
