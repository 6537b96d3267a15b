"""Tests of the deployment controller."""
