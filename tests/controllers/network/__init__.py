"""Tests of the controllers of services and of their endpoints."""
