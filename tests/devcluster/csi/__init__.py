"""Tests of the driver and of mounts."""
