"""One simulation of everything that can go wrong, for all controllers, from one seed.

The daemon's own code runs against the API server of the development cluster, in one
process and on virtual time. Nothing here is about one controller, except a row in the
table and a dozen promises.

- `loop`: virtual time in a repeatable order; stops single processes.
- `faults`: decides which faults happen, and how often in this seed.
- `network`, `transport`: faults between managers and server: slow, lost and failing
  requests, late and lost watches, servers that are behind.
- `managers`: processes that crash, stop, start again, and take over from each other.
- `disturbances`: faults of machines, and strangers who change objects of controllers.
- `table`: each kind of objects: how users make and change them, and what they need.
- `users`: create, change, delete and create again what the table says.
- `settings`, `world`: the managers and the cluster of one seed.
- `checks`: what holds at every write of every controller; `promises`: of single ones.
- `end`, `memory`, `fights`: the end must be that of the same users without faults;
  nothing is written any more, and nothing is remembered of what is gone.
- `settled`: what single kinds owe when nobody writes any more.
- `recorded`: the ends of the seeds of a commit; they show what is wrong without faults.
- `runner`: plays a seed, and makes the story of a failure shorter.

``python -m tests.world --seed 7`` plays a seed again.
"""
