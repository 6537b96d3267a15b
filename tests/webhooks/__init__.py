"""Tests of the webhooks that controllers declare."""
