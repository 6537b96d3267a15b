"""Mirror config maps with a label into another cluster.

    controller-manager devcluster --write-kubeconfig edge.kubeconfig &
    python examples/e6_two_clusters.py --kubeconfig-edge=edge.kubeconfig
    kubectl label configmap settings example.com/mirror=true

`in_cluster` says where the API server of a resource is, and all else follows: caches,
limits and permissions are those of that cluster. The lease is in the first one. While a
cluster cannot be reached, the syncs that need it are retried, and the others go on.
"""

from controller_manager.sdk import (
    DONE,
    Descriptor,
    For,
    Maps,
    Outcome,
    Reconciler,
    SyncError,
    allow,
    core_v1,
    is_deleting,
    key_of,
    labels_of,
    run,
)

MIRROR = "example.com/mirror"
MIRRORS = core_v1.CONFIG_MAPS.in_cluster("edge")


class MirrorConfigMaps(Reconciler[core_v1.ConfigMap]):
    """Keeps a copy of each config map with the label, in the same namespace."""

    watches = (
        For(core_v1.CONFIG_MAPS),
        Maps(MIRRORS, lambda _, mirror: [key_of(mirror)]),
    )

    def starting(self) -> None:
        """Look at all mirrors, also at those whose config map has gone meanwhile."""
        for mirror in self.lister(MIRRORS).all():
            self.queue.add(key_of(mirror))

    async def reconcile(self, config_map: core_v1.ConfigMap) -> Outcome:
        """Write the mirror if it differs, or remove it."""
        mirror = self.lister(MIRRORS).by_key(key_of(config_map))
        if labels_of(config_map).get(MIRROR) != "true" or is_deleting(config_map):
            return await self.reconcile_absent(key_of(config_map))
        if mirror is not None and MIRROR not in labels_of(mirror):
            message = f"{key_of(mirror)} of the other cluster is not a mirror"
            raise SyncError(message)
        if mirror is None or held_by(mirror) != held_by(config_map):
            metadata = {
                "namespace": config_map.metadata.namespace,
                "name": config_map.metadata.name,
                "labels": {MIRROR: "copy"},
            }
            config = {"metadata": metadata, **held_by(config_map)}
            await self.client.apply(MIRRORS, config)
        return DONE

    async def reconcile_absent(self, key: str) -> Outcome:
        """Remove the mirror of a config map that is gone, and nothing else."""
        mirror = self.lister(MIRRORS).by_key(key)
        if mirror is not None and MIRROR in labels_of(mirror):
            await self.client.delete_exactly(MIRRORS, mirror)
        return DONE


def held_by(config_map: core_v1.ConfigMap) -> dict[str, object]:
    """Return what a config map holds, without its metadata."""
    return {
        "data": config_map.data or {},
        "binaryData": config_map.binary_data or {},
    }


CONTROLLER = Descriptor(
    name="mirror-config-maps",
    load=MirrorConfigMaps,
    permissions=(allow(MIRRORS, "create", "patch", "delete"),),
)

if __name__ == "__main__":
    run(CONTROLLER)
