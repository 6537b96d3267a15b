"""The endpoints of services: their pods, addresses, ports and slices."""
