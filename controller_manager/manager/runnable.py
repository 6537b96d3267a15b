"""Runnables, the parts of a manager: each has run, stop, health and ready."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from controller_manager.serving.health import HealthCheck

Checks = Mapping[str, HealthCheck]
"""Checks by name, in the order in which they are shown."""


class Lifetime(Struct, frozen=True):
    """The task group that runnables run in, and the signal to stop.

    Runnables start their tasks in `tasks`: a failure of one task ends all of them, so
    tasks survive unexpected exceptions, see `runtime.worker`.
    `stop` is set when the process must stop; runnables are then stopped one after
    the other.
    """

    tasks: asyncio.TaskGroup
    stop: asyncio.Event


class Runnable(Protocol):
    """One part of a manager (controller-runtime's Runnable, plus `stop`).

    After a failure `stop` is not called: all tasks are cancelled, and then the lease is
    released.
    """

    async def run(self, life: Lifetime) -> None:
        """Start the tasks, then return. Raises if the part cannot start."""

    async def stop(self) -> None:
        """End the tasks that `run` started; does nothing if `run` was not called."""

    def health(self) -> Checks:
        """Return the checks of /healthz and /livez: faults that a restart repairs."""
        return {}

    def ready(self) -> Checks:
        """Return the checks of /readyz: what this part waits for."""
        return {}
