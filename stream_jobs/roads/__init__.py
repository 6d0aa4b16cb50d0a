"""The known road network: its shape, which edge a position is on, how long a way takes. No Spark."""
