"""Alerts in the database, for the command line and the page: read, acknowledged, ended, silenced."""
