"""Benchmarks of the manager: time, CPU, memory, requests, beside another manager.

- `server`: a development cluster in a process of its own.
- `machine`: CPU and memory of processes.
- `contenders`: starts managers.
- `driver`: the user, who creates work for them.
- `workloads`: the benchmarks.
- `report`: shows the results; `pages` shows them in pages of docs.
- `__main__`: the command.
- `sizing`: a command of its own, for docs/sizing.md.
- `operators`: a command of its own, for docs/operators-measured.md.

Absolute times mean nothing on other machines: compare two contenders in one run,
or two sizes.
"""
