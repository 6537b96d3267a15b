"""The paths of requests: an object, the objects of a namespace, or a whole collection.

An empty name would turn the path of an object into that of its collection: ``delete``
would delete all objects of the namespace. So each function here makes the path of one
kind of request, and raises `InvalidName` for a missing name before anything is sent.

Upstream: client-go rest/request.go (`Name` and `requestPreflightCheck`).
"""

from controller_manager.api.resource import AnyResource, InvalidPathSegment

from .errors import InvalidName


def object_path(
    resource: AnyResource, namespace: str, name: str, subresource: str = ""
) -> str:
    """Return the path of one object, or of its subresource.

    Raises InvalidName if the name is empty, if the namespace of a namespaced resource
    is empty, or if one of them cannot be a segment of a path.
    """
    if not name:
        msg = f"{resource.group_resource}: the name of an object may not be empty"
        raise InvalidName(msg)
    _require_namespace(resource, namespace)
    return _path(resource, namespace, name, subresource)


def namespace_path(resource: AnyResource, namespace: str) -> str:
    """Return the path to create an object, or to delete all objects of a namespace.

    Raises InvalidName if the namespace of a namespaced resource is empty, or cannot be
    a segment of a path.
    """
    _require_namespace(resource, namespace)
    return _path(resource, namespace)


def collection_path(resource: AnyResource, namespace: str) -> str:
    """Return the path to list or watch; an empty namespace stands for all namespaces.

    Raises InvalidName if the namespace cannot be a segment of a path.
    """
    return _path(resource, namespace)


def _require_namespace(resource: AnyResource, namespace: str) -> None:
    if resource.namespaced and not namespace:
        msg = f"{resource.group_resource}: the namespace of an object may not be empty"
        raise InvalidName(msg)


def _path(
    resource: AnyResource, namespace: str, name: str = "", subresource: str = ""
) -> str:
    try:
        return resource.path(namespace, name, subresource)
    except InvalidPathSegment as error:
        raise InvalidName(str(error)) from error
