"""Reads and updates the scale subresource of any kind (client-go's scale client)."""

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.client.discovery.resource_mapper import ResourceMapper
from controller_manager.client.discovery.resources import ServedResource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound, is_about


class NoScale(Exception):
    """A resource has no scale subresource; the cause is the API server's answer."""

    def __init__(self, resource: ServedResource) -> None:
        name = resource.group_resource
        super().__init__(f"{name} does not implement the scale subresource")
        self.resource = resource


class Scales:
    """Reads and updates scales as one controller.

    Use it so::

        resource = await context.resources.resource_of(group, kind, version)
        scale = await scales.get(resource, namespace, name)
    """

    def __init__(self, client: Client, resources: ResourceMapper) -> None:
        self._client = client
        self._resources = resources

    async def get(self, resource: ServedResource, namespace: str, name: str) -> Scale:
        """Return the scale of an object as it is stored.

        Raises NotFound if the object does not exist, NoScale if its resource has no
        scale subresource or is not served any more, and the errors of the client.
        """
        target = resource.metadata_resource()
        try:
            return await self._client.get_scale(target, namespace, name)
        except NotFound as error:
            # An API server says of a custom resource without scale that the object is
            # not found; upstream asks discovery, too (implementsScale).
            has_scale = "scale" in resource.subresources
            if has_scale and is_about(error, name):
                raise
            if has_scale:
                # Discovery found a scale for it. Perhaps the resource is gone.
                self._resources.doubt()
            raise NoScale(resource) from error

    async def update(self, resource: ServedResource, scale: Scale) -> Scale:
        """Replace a scale that `get` returned; raises Conflict if it has changed."""
        target = resource.metadata_resource()
        return await self._client.replace_scale(target, scale)
