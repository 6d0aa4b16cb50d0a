"""The batch layer on request and by night: windows, journeys and alerts made again from the archive."""
