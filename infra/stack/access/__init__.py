"""Who is who: certificates and keys, vehicles at the broker, system users of programs."""
