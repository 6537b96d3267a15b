"""What the manager costs: time, CPU, memory, requests; beside another's if wanted.

`server` is a development cluster in a process of its own, `machine` reads what
processes use, `answers` how late an endpoint is, `metrics` reads what a manager
says of itself, `contenders` starts managers, `driver` is the user who gives them
work, `workloads` are the benchmarks, `report` shows what came of them,
`__main__` is the command. Absolute times mean nothing elsewhere: compare two
contenders in one run, or two sizes.
"""
