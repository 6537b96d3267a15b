"""A simulator of everything that can go wrong, from one seed.

The daemon's own code runs against the development cluster in one process, on
virtual time and over the in-memory transport. `loop` makes time and order
repeatable, and stops processes; `faults` decides what goes wrong; `network` and
`transport` make it so between managers and server, `managers` to processes,
`strangers` to machines and objects. `world` is the cluster; `checks` says what
must never be, `ending` what must come out; `runner` plays one seed, `__main__`
many. `sieve` breaks every write of the recorded scenarios, `scenarios` plays
upstream's known faults, and `bugs` are deliberate ones that must be noticed.

All of these know mechanisms only. What is a controller's own stands beside its
tests, in ``tests/controllers/AREA/NAME``: ``properties.py`` says what it may write,
what must never be and what must come out, ``workload.py`` what users do with its
objects; ``scenarios.py`` and ``bugs.py`` have its own scenarios and bugs.
`properties` and `workload` define the forms, `finding` finds the modules, also
those of other packages.
"""
