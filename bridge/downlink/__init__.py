"""Kafka's alerts on their way out: to the vehicles over MQTT, to webhooks over HTTP."""
