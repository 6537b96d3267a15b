"""Reads one object from the API server, where one cache may be older than another."""

from typing import TypeVar

from controller_manager.api.meta import KubeObject
from controller_manager.api.resource import Resource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound, is_about

ReadT = TypeVar("ReadT", bound=KubeObject)


async def live(
    client: Client, resource: Resource[ReadT], namespace: str, name: str
) -> ReadT | None:
    """Return an object as the API server has it, `None` if it does not exist.

    Raises NotFound if something else does not exist, such as the resource itself. Other
    failures raise the errors of the client.
    """
    try:
        return await client.get(resource, namespace, name)
    except NotFound as error:
        if not is_about(error, name):
            raise
        return None
