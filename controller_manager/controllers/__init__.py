"""The controllers, siblings that never import each other.

A controller is handlers that turn changes into keys, and a sync that makes the
world match the object of one key. It reads caches only; what it decides is a
plain value, made by pure functions that tests can call; only applying that
value awaits the network.
"""
