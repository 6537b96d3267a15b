"""A simulator of everything that can go wrong, from one seed.

The daemon's own code runs against the development cluster in one process, on
virtual time and over the in-memory transport.

- `loop`: virtual time in a repeatable order; stops single processes.
- `faults`: decides which faults happen.
- `network`, `transport`: faults between managers and server.
- `managers`: faults of processes.
- `disturbances`: faults of machines, and edits by other users.
- `world`: the cluster of one seed.
- `checks`: invariants, checked at every write.
- `ending`: the expected final state; `fights`: what goes back and forth before it.
- `runner`: plays one seed; `__main__` plays many.
- `previews`: a preview beside the managers of a seed.
- `sieve`: breaks every write of the recorded scenarios.
- `scenarios`: upstream's known faults; `cluster_faults`: faults of clusters.
- `bugs`: deliberate bugs that the simulator must find.

These modules contain mechanisms only. Everything about one controller stands
beside its tests, in ``tests/controllers/AREA/NAME``: ``properties.py`` says which
writes, states and final states it promises, ``workload.py`` what users do with its
objects; ``scenarios.py`` and ``bugs.py`` have its own scenarios and bugs.
`properties` and `workload` define the base classes. `finding` finds the modules,
also those of other packages.
"""
