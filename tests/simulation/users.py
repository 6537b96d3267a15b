"""Choose the users that act in a seed.

All controllers run in every seed. If the users of all of them acted, a seed would take
longer with every controller that is added.
"""

import random
from collections.abc import Iterable
from typing import Final

from tests.simulation.properties import Properties

MORE: Final = 3
"""The users of so many controllers act beside those that act in every seed."""


def users_of(seed: int, controllers: Iterable[type[Properties]]) -> frozenset[str]:
    """Return the controllers whose users act in a seed.

    Users of controllers outside this tree act in every seed.
    """
    controllers = list(controllers)
    always = users_in_every_seed(controllers)
    having_users = {each.controller for each in controllers if each.workload}
    others = sorted(having_users - always)
    drawn = random.Random(f"users {seed}").sample(others, min(MORE, len(others)))
    return always.union(drawn)


def users_in_every_seed(controllers: Iterable[type[Properties]]) -> frozenset[str]:
    """Return the controllers whose users act in every seed."""
    return frozenset(
        each.controller
        for each in controllers
        if each.workload is not None
        and (each.workload.acts_always or not each.__module__.startswith("tests."))
    )
