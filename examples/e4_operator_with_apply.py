"""The operator of e3_operator.py, with server-side apply.

    kubectl apply -f examples/websites.yaml
    python examples/e4_operator_with_apply.py

`apply` creates an object or changes it, and answers with the whole of it: there is no
"create, else patch". The API server notes which fields the operator has applied. A
field that it applies no more is removed, and all others, such as those that a user or
an autoscaler has added, stay. The types and the deployment are those of e3_operator.py.
"""

from contextlib import suppress
from typing import Any

from e3_operator import (
    LISTED,
    WEBSITES,
    Website,
    deployment_of,
    entry_of,
    is_new,
    present_deployment,
    status_of,
)

from controller_manager.sdk import (
    DONE,
    Descriptor,
    For,
    NotFound,
    Outcome,
    Owns,
    Reconciler,
    allow,
    apps_v1,
    core_v1,
    is_deleting,
    run,
)


class ApplyingReconciler(Reconciler[Website]):
    """Applies the deployment, the entry and the status of each website."""

    watches = (For(WEBSITES), Owns(apps_v1.DEPLOYMENTS))

    async def reconcile(self, website: Website) -> Outcome:
        """Apply what has changed; or clean up."""
        entry = named(entry_of(website))
        if is_deleting(website):
            await self._clean_up(website, **entry)
            return DONE
        website = await LISTED.add(self.client, WEBSITES, website)
        deployment = present_deployment(self.lister(apps_v1.DEPLOYMENTS), website)
        if deployment is None or is_new(website):
            await self.client.apply(core_v1.CONFIG_MAPS, {"metadata": entry})
            wanted = deployment_of(website)
            deployment = await self.client.apply(apps_v1.DEPLOYMENTS, wanted)
        status = status_of(website, deployment, self.clock.now())
        if status != website.status:
            # The uid: without it, a website that is gone would be created again.
            metadata = {**named(website), "uid": website.metadata.uid}
            config = {"metadata": metadata, "status": status}
            await self.client.apply(WEBSITES, config, subresource="status")
        return DONE

    async def _clean_up(self, website: Website, namespace: str, name: str) -> None:
        if LISTED.must_clean_up(website):
            with suppress(NotFound):
                await self.client.delete(core_v1.CONFIG_MAPS, namespace, name)
            await LISTED.remove(self.client, WEBSITES, website)


def named(obj: Website | core_v1.ConfigMap) -> dict[str, Any]:
    """Return the metadata that name an object."""
    return {"namespace": obj.metadata.namespace, "name": obj.metadata.name}


CONTROLLER = Descriptor(
    name="website-operator",
    load=ApplyingReconciler,
    permissions=(
        allow(WEBSITES, "patch"),  # the finalizer
        allow(WEBSITES, "patch", subresource="status"),
        # To apply is a patch, and a create if the object is not there.
        allow(apps_v1.DEPLOYMENTS, "create", "patch"),
        allow(core_v1.CONFIG_MAPS, "create", "delete", "patch"),
    ),
)

if __name__ == "__main__":
    run(CONTROLLER)
