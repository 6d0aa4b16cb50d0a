"""Publishing: two MQTT clients behind one interface, pacing, one or several processes."""
