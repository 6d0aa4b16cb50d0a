"""Clients of the services: addresses, errors, deadlines, logs and health pages."""
