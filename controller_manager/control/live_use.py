"""What objects use others, as the API server has them now.

A protection controller asks before it lets an object go: a cache may not show yet that
something began to use it.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.api.resource import Resource
from controller_manager.client.client import Client
from controller_manager.runtime.outcome import SyncError


class Users(NamedTuple):
    """The objects of a resource, with a function that returns the keys they use."""

    resource: Resource[Any]
    used_by: Callable[[Any], Iterable[str]]


class LiveUse:
    """The objects in use, by lists of the possible users in their namespace.

    The lists serve all objects of a namespace that were deleted before them. For
    cluster-scoped objects the users of all namespaces are listed.
    """

    def __init__(self, client: Client, *users: Users) -> None:
        """Take the client; nothing is listed yet."""
        self._client = client
        self._users = users
        self.forget()

    def forget(self) -> None:
        """Drop what the last lists have shown."""
        self._namespace = ""
        self._version = 0
        self._used: frozenset[str] = frozenset()

    async def is_used(self, obj: KubeObject) -> bool:
        """Tell whether something uses an object that is being deleted.

        Raises SyncError if the API server answers with lists that are older than the
        deletion.
        """
        key, namespace = key_of(obj), obj.metadata.namespace
        deleted = resource_version_number(obj.metadata.resource_version)
        is_new = self._namespace == namespace and self._version >= deleted
        if is_new and key not in self._used:
            return False
        await self._list(namespace)
        if self._version < deleted:
            kinds = " and ".join(each.resource.plural for each in self._users)
            msg = f"the API server's {kinds} are older than the deletion of {key}"
            raise SyncError(msg)
        return key in self._used

    async def _list(self, namespace: str) -> None:
        self.forget()
        used: set[str] = set()
        versions = []
        for resource, used_by in self._users:
            version = 0
            async for page in self._client.list_all(resource, namespace):
                version = resource_version_number(page.resource_version)
                for each in page.items:
                    used.update(used_by(each))
            versions.append(version)
        self._namespace, self._version = namespace, min(versions)
        self._used = frozenset(used)
