"""A simulator of everything that can go wrong, from one seed.

The daemon's own code runs against the development cluster in one process, on
virtual time and over the in-memory transport. `loop` makes time and order
repeatable, `faults` decides what goes wrong, `transport` makes it so, `world`
is the cluster with its users and strangers, `checks` says what must never be
and what must come out, `runner` plays one seed, `__main__` many.
"""
