"""Tests of OpenAPI documents."""
