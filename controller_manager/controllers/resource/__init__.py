"""Devices, and the claims to them (WG Device Management)."""
