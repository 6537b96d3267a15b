"""Writes the status and the finalizers of claims with a version precondition."""

from controller_manager.api.dynamicresources.v1 import RESOURCE_CLAIMS, ResourceClaim
from controller_manager.api.json_objects import JSON
from controller_manager.client.client import DeleteOptions, PatchType
from controller_manager.runtime.context import ControllerContext


class ClaimWriter:
    """Changes claims; each request fails if the claim has changed meanwhile.

    Schedulers reserve claims at the same time. A patch has only the fields that change,
    so it removes no field that this version does not know.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client

    async def set_status(self, claim: ResourceClaim, fields: JSON) -> ResourceClaim:
        """Set fields of the status; return the stored claim."""
        return await self._patch(claim, {"status": fields}, "status")

    async def set_finalizers(
        self, claim: ResourceClaim, finalizers: list[str] | None
    ) -> None:
        """Set the finalizers."""
        await self._patch(claim, {"metadata": {"finalizers": finalizers}})

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim, but not another claim of the same name."""
        metadata = claim.metadata
        options = DeleteOptions(uid=metadata.uid)
        where = (metadata.namespace, metadata.name)
        await self._client.delete(RESOURCE_CLAIMS, *where, options)

    async def _patch(
        self, claim: ResourceClaim, patch: JSON, subresource: str = ""
    ) -> ResourceClaim:
        metadata = claim.metadata
        same = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        return await self._client.patch(
            RESOURCE_CLAIMS,
            metadata.namespace,
            metadata.name,
            {**patch, "metadata": {**same, **patch.get("metadata", {})}},
            PatchType.MERGE,
            subresource,
        )
