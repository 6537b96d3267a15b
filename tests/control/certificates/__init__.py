"""Tests of what the controllers of certificate requests share."""
