"""A controller in the process of the built-in ones: namespaces that sleep.

    pip install ./examples      # pyproject.toml has the entry point that names it
    controller-manager devcluster -- sh
    kubectl label namespace default example.com/asleep=true

It scales the deployments of a namespace with this label to zero, and back when the
label goes. Pods are the work of the built-in controllers: this one writes the spec, and
they bring it about. In one process all read the same caches; the deployments are held
once. It has its own service account, queue, metrics and switch:
`--controllers=*,-sleeping-namespaces`. `python examples/e7_beside_built_in.py` runs it
in a process of its own, beside any manager.
"""

from collections.abc import Iterable

from controller_manager.sdk import (
    BY_NAMESPACE,
    DONE,
    NORMAL,
    RECORD_EVENTS,
    ControllerContext,
    Descriptor,
    For,
    Maps,
    Outcome,
    Reconciler,
    allow,
    apps_v1,
    core_v1,
    is_deleting,
    key_of,
    labels_of,
    run,
)

ASLEEP = "example.com/asleep"
AWAKE = "example.com/replicas-awake"
"""The annotation of a deployment that sleeps: its replicas before."""


class SleepingNamespaces(Reconciler[apps_v1.Deployment]):
    """Scales deployments to zero while their namespace sleeps."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; a lister needs the index to list a namespace."""
        super().__init__(context)
        self._deployments = context.lister(apps_v1.DEPLOYMENTS, BY_NAMESPACE)

    def _deployments_of(self, namespace: core_v1.Namespace) -> Iterable[str]:
        return map(key_of, self._deployments.list(namespace.metadata.name))

    watches = (For(apps_v1.DEPLOYMENTS), Maps(core_v1.NAMESPACES, _deployments_of))

    async def reconcile(self, deployment: apps_v1.Deployment) -> Outcome:
        """Send the deployment to sleep, or wake it."""
        namespace = self.lister(core_v1.NAMESPACES).get(
            "", deployment.metadata.namespace
        )
        if namespace is None or is_deleting(namespace) or is_deleting(deployment):
            return DONE
        before = (deployment.metadata.annotations or {}).get(AWAKE)
        if labels_of(namespace).get(ASLEEP) == "true":
            if replicas := deployment.spec.replicas:
                await self._scale(deployment, 0, str(replicas))
        elif before is not None:
            # Somebody has scaled it since: that counts.
            await self._scale(deployment, deployment.spec.replicas or int(before), None)
        return DONE

    async def _scale(
        self, deployment: apps_v1.Deployment, replicas: int, awake: str | None
    ) -> None:
        metadata = {"annotations": {AWAKE: awake}}
        patch = {"metadata": metadata, "spec": {"replicas": replicas}}
        about = (apps_v1.DEPLOYMENTS, deployment)
        # Both numbers come from the cached object: it must be the latest.
        await self.client.patch_exactly(*about, patch, same_version=True)
        reason = "Awake" if awake is None else "Asleep"
        self.recorder.event(*about, NORMAL, reason, f"Scaled to {replicas}")


CONTROLLER = Descriptor(
    name="sleeping-namespaces",
    load=SleepingNamespaces,
    # In a manager with others, name what it watches: it waits for these.
    requires=(apps_v1.DEPLOYMENTS, core_v1.NAMESPACES),
    permissions=(allow(apps_v1.DEPLOYMENTS, "patch"), *RECORD_EVENTS),
)

if __name__ == "__main__":
    run(CONTROLLER)
