"""One operator, written three times, and what it costs each way.

- `with_sdk`, `with_kopf`, `with_asyncio`: the operator, each a whole program. None
  imports another module of the tests, which would set their strict modes.
- `measuring`: the work, and the figures of one run.
- `page`: the tables of docs/operators-measured.md.
- `__main__`: the command.
"""
