"""End-to-end tests with kubectl."""
