"""The cluster for the tests of controllers, and its pytest plugin."""
