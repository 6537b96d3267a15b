"""The root cause of a rollout that is stuck, and the function that finds it.

The package ``explain`` has the function. A build passes it on, as it passes on the
controllers: what runs the controllers knows none of them.
"""

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from controller_manager.api.resource import AnyResource

if TYPE_CHECKING:  # the registry, which --help reads, has the function
    from controller_manager.client.client import Client
    from controller_manager.client.server_clock import ServerClock


class RootCause(Struct, frozen=True):
    """The root cause for which a rollout is not complete.

    The code is empty if the cause cannot be read. `unread` is the first request that
    was refused or failed, empty for none. Without `is_stuck` the rollout goes on by
    itself, or nothing is known of it.
    """

    is_healthy: bool = False
    is_stuck: bool = False
    code: str = ""
    unread: str = ""


class FindRootCause(Protocol):
    """Finds root causes."""

    async def __call__(
        self,
        client: "Client",
        clock: "ServerClock",
        resource: AnyResource,
        namespace: str,
        name: str,
    ) -> RootCause:
        """Return the root cause of an object; one that is gone is healthy."""
