"""Finds the objects of a resource, and has each stored again (runMigration)."""

from http import HTTPStatus
from typing import Final

from msgspec import Struct

from controller_manager.api.meta import PartialMetadata, PartialObject
from controller_manager.api.resource import Resource
from controller_manager.api.storagemigration.v1beta1 import GroupResource
from controller_manager.client.client import Client, ListOptions
from controller_manager.client.discovery import Discovery, ServedResource
from controller_manager.client.errors import APIError, Conflict, NotFound, is_about

_NEEDED: Final = ("update", "patch", "list")

_NOT_COMPARABLE: Final = "resource version is not well formed"

_TEMPORARY: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)


class MigrationError(Exception):
    """A migration that can never succeed; the text says why."""


class Stored(Struct, frozen=True):
    """An object that is stored again if it still has this version."""

    namespace: str
    name: str
    uid: str
    version: str


def served(discovery: Discovery, wanted: GroupResource) -> ServedResource | None:
    """Return the preferred version of a resource, `None` if it is not served.

    Raises MigrationError if its objects cannot be migrated.
    """
    resource = (wanted.group, wanted.resource)
    found = next(
        (
            each
            for each in discovery.resources
            if each.is_preferred and (each.group, each.plural) == resource
        ),
        None,
    )
    if found is not None and not found.verbs.issuperset(_NEEDED):
        msg = (
            f'resource "{_name_of(found)}" does not support discovery operations: '
            f"[{' '.join(_NEEDED)}]"
        )
        raise MigrationError(msg)
    return found


def is_unread(discovery: Discovery, wanted: GroupResource) -> bool:
    """Tell whether a part of a resource's group could not be discovered."""
    return any(each.rpartition("/")[0] == wanted.group for each in discovery.failures)


def _name_of(resource: ServedResource) -> str:
    """Return a resource as Go prints a GroupVersionResource."""
    return f"{resource.group}/{resource.version}, Resource={resource.plural}"


async def newest_version(client: Client, resource: ServedResource) -> str:
    """Return the version of the newest object of a resource, or a later one.

    Raises MigrationError if versions of the resource cannot be compared.
    """
    options = ListOptions(limit=1)
    page = await client.list_page(resource.metadata_resource(), "", options)
    version = page.resource_version
    if not is_comparable(version):
        msg = (
            f"latest resourceVersion for {_name_of(resource)} is not valid: "
            f"{_NOT_COMPARABLE}: {version}"
        )
        raise MigrationError(msg)
    return version


def is_comparable(version: str) -> bool:
    """Tell whether a version is a number (resourceversion.CompareResourceVersion)."""
    return version.isascii() and version.isdecimal() and not version.startswith("0")


async def stored_until(
    client: Client, resource: Resource[PartialObject], version: str
) -> list[Stored]:
    """Return the objects that were stored at `version` or before it.

    Raises MigrationError if the version of an object cannot be compared.
    """
    found: list[Stored] = []
    async for page in client.list_all(resource):
        found += [
            Stored(each.namespace, each.name, each.uid, each.resource_version)
            for each in (listed.metadata for listed in page.items)
            if not _is_newer(each.resource_version, version)
        ]
    return found


def _is_newer(version: str, other: str) -> bool:
    if not is_comparable(version):
        msg = f"{_NOT_COMPARABLE}: {version}"
        raise MigrationError(msg)
    return int(version) > int(other)


async def store_again(
    client: Client, resource: Resource[PartialObject], obj: Stored, manager: str
) -> bool:
    """Have an object stored again; does nothing for a deleted object.

    Return False if the API server answers that the object has changed: then another
    client has had it stored. Raises MigrationError for an error that is not temporary.
    """
    metadata = PartialMetadata(
        namespace=obj.namespace,
        name=obj.name,
        uid=obj.uid,
        resource_version=obj.version,
    )
    try:
        await client.rewrite(resource, PartialObject(metadata=metadata), manager)
    except Conflict:
        return False
    except APIError as error:
        if _is_gone(error, obj):
            return True
        if error.code in _TEMPORARY or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        raise MigrationError(str(error)) from error
    return True


def _is_gone(error: APIError, obj: Stored) -> bool:
    return isinstance(error, NotFound) and (
        is_about(error, obj.name) or is_about(error, obj.namespace)
    )
