"""A simulator of everything that can go wrong, from one seed.

The daemon's own code runs against the development cluster in one process, on
virtual time and over the in-memory transport. `loop` makes time and order
repeatable, and stops processes; `faults` decides what goes wrong; `network` and
`transport` make it so between managers and server, `managers` to processes,
`strangers` to machines and objects. `world` is the cluster with its users,
`checks` says what must never be, `ending` what must come out; `runner` plays one
seed, `__main__` many. `sieve` breaks every write of the recorded scenarios,
`scenarios` plays upstream's known faults, and `bugs` are deliberate ones that
must be noticed.
"""
