"""Past one machine: servers as of several hosts, the address before dashboards, two regions."""
