"""What a manager consists of: runnables, each with run, stop, health and ready."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controller_manager.serving.health import HealthCheck

Checks = Mapping[str, HealthCheck]
"""Checks by name, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Where runnables run, and until when.

    What they do goes on in tasks of `tasks`: a failure of one ends all of them.
    `stop` is set when the process is told to stop; runnables are then stopped
    one after the other.
    """

    tasks: asyncio.TaskGroup
    stop: asyncio.Event


class Runnable(Protocol):
    """One part of a manager (controller-runtime's Runnable, with its end).

    After a failure nothing is stopped in order: the tasks are cancelled, as they
    are when the process is killed.
    """

    async def run(self, life: Lifetime) -> None:
        """Start; return once all of it is under way. Raises if it cannot start."""

    async def stop(self) -> None:
        """End what `run` began, in good order; does nothing if it has not run."""

    def health(self) -> Checks:
        """Return the checks of /healthz and /livez: what a restart would mend."""
        return {}

    def ready(self) -> Checks:
        """Return the checks of /readyz: what it waits for."""
        return {}
