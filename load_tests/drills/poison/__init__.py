"""The drill poison-2: what a stranger on the wire, a web page or a hostile file tried against the service."""
