"""Client libraries of other projects, on the development cluster."""
