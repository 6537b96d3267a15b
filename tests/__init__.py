"""Tests, in packages that mirror the project's."""
