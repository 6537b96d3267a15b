"""Tests of the attach-detach controller."""
