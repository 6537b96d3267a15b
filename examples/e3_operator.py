"""An operator: a custom resource with a child, a status and a finalizer.

    kubectl apply -f examples/websites.yaml
    python examples/e3_operator.py

Each website gets a deployment, which is deleted with it by the garbage collector. It is
also listed in the namespace kube-public, by a config map. No owner reference leads into
another namespace: so the operator deletes this one, and a finalizer keeps the website
until then.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from controller_manager.sdk import (
    DONE,
    AlreadyExists,
    APIStruct,
    CompleteObject,
    Condition,
    Descriptor,
    Finalizer,
    For,
    Lister,
    NotFound,
    ObjectMeta,
    Outcome,
    Owns,
    Reconciler,
    Resource,
    SyncError,
    allow,
    apps_v1,
    core_v1,
    is_deleting,
    owned_by,
    run,
    set_condition,
)

LISTED = Finalizer("example.com/listed")


class WebsiteSpec(APIStruct, frozen=True):
    """What the user wants."""

    image: str = ""
    replicas: int = 1


class WebsiteStatus(APIStruct, frozen=True):
    """What there is; `observed_generation` is the spec that was brought about last."""

    observed_generation: int = 0
    ready_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class Website(CompleteObject, frozen=True):
    """A website."""

    spec: WebsiteSpec = WebsiteSpec()
    status: WebsiteStatus = WebsiteStatus()


WEBSITES: Resource[Website] = Resource(
    "example.com", "v1", "websites", "Website", Website
)


class WebsiteReconciler(Reconciler[Website]):
    """Keeps the deployment, the entry and the status of each website."""

    watches = (For(WEBSITES), Owns(apps_v1.DEPLOYMENTS))

    async def reconcile(self, website: Website) -> Outcome:
        """Bring about the spec, then write the status; or clean up."""
        if is_deleting(website):
            await self._clean_up(website)
            return DONE
        # First of all: from now on nothing that is made can be forgotten.
        website = await LISTED.add(self.client, WEBSITES, website)
        if is_new(website):
            with suppress(AlreadyExists):
                await self.client.create(core_v1.CONFIG_MAPS, entry_of(website))
        deployment = await self._deployment(website)
        status = status_of(website, deployment, self.clock.now())
        if status != website.status:
            changed = msgspec.structs.replace(website, status=status)
            await self.client.update(WEBSITES, changed, subresource="status")
        return DONE

    async def _deployment(self, website: Website) -> apps_v1.Deployment:
        """Create the deployment, or change it if the spec has changed."""
        present = present_deployment(self.lister(apps_v1.DEPLOYMENTS), website)
        wanted = deployment_of(website)
        if present is None:
            where = (apps_v1.DEPLOYMENTS, website.metadata.namespace)
            return await self.client.create_json(*where, msgspec.json.encode(wanted))
        if not is_new(website):
            return present
        patch = {"spec": wanted["spec"]}
        return await self.client.patch_exactly(apps_v1.DEPLOYMENTS, present, patch)

    async def _clean_up(self, website: Website) -> None:
        if LISTED.must_clean_up(website):
            entry = entry_of(website).metadata
            with suppress(NotFound):
                await self.client.delete(
                    core_v1.CONFIG_MAPS, entry.namespace, entry.name
                )
            await LISTED.remove(self.client, WEBSITES, website)


def is_new(website: Website) -> bool:
    """Tell whether the spec has changed since it was brought about last."""
    return website.status.observed_generation != website.metadata.generation


def present_deployment(
    deployments: Lister[apps_v1.Deployment], website: Website
) -> apps_v1.Deployment | None:
    """Return the deployment of a website; raises SyncError if it is somebody else's."""
    name = website.metadata.name
    present = deployments.get(website.metadata.namespace, name)
    if present is None or present in deployments.controlled_by(website):
        return present
    msg = f"the deployment {name} is not of this website; delete or rename it"
    raise SyncError(msg)  # one line in the log, and a retry


def entry_of(website: Website) -> core_v1.ConfigMap:
    """Return the config map that lists a website."""
    name = f"{website.metadata.namespace}.{website.metadata.name}"
    return core_v1.ConfigMap(metadata=ObjectMeta(namespace="kube-public", name=name))


def deployment_of(website: Website) -> dict[str, Any]:
    """Return the fields of the deployment that this operator decides on."""
    labels = {"example.com/website": website.metadata.name}
    container = {"name": "web", "image": website.spec.image}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "metadata": {
            "namespace": website.metadata.namespace,
            "name": website.metadata.name,
            "ownerReferences": owned_by(website, WEBSITES),
        },
        "spec": {
            "replicas": website.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": pods,
        },
    }


def status_of(
    website: Website, deployment: apps_v1.Deployment, now: datetime
) -> WebsiteStatus:
    """Return the status; a condition keeps its time until its status changes."""
    ready, wanted = deployment.status.ready_replicas, website.spec.replicas
    condition = Condition(
        type="Ready",
        status="True" if ready >= wanted else "False",
        reason="AllReady" if ready >= wanted else "PodsMissing",
        message=f"{ready} of {wanted} pods are ready.",
        observed_generation=website.metadata.generation,
    )
    return WebsiteStatus(
        observed_generation=website.metadata.generation,
        ready_replicas=ready,
        conditions=set_condition(website.status.conditions, condition, now),
    )


CONTROLLER = Descriptor(
    name="website-operator",
    load=WebsiteReconciler,
    permissions=(
        allow(WEBSITES, "patch"),  # the finalizer
        allow(WEBSITES, "update", subresource="status"),
        allow(apps_v1.DEPLOYMENTS, "create", "patch"),
        allow(core_v1.CONFIG_MAPS, "create", "delete"),
    ),
)

if __name__ == "__main__":
    run(CONTROLLER)
