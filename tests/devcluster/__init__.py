"""The development cluster."""
