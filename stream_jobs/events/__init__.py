"""The event store: crash records, statuses, alerts and dead letters from Kafka into the database."""
