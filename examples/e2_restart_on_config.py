"""Restart deployments when the config map changes that their annotation names.

    python examples/e2_restart_on_config.py
    kubectl annotate deployment web example.com/restart-on=settings

`Maps` watches other objects than those that are reconciled: its function says which of
these a change concerns. The hash of the config map is an annotation of the pod
template, so the deployment controller rolls out new pods when it changes. A deployment
that gets the annotation is restarted once, for it has no hash before.
"""

import json
from collections.abc import Iterable
from hashlib import sha256

from controller_manager.sdk import (
    DONE,
    NORMAL,
    RECORD_EVENTS,
    ControllerContext,
    DependsOn,
    Descriptor,
    For,
    Index,
    Maps,
    Outcome,
    Reconciler,
    allow,
    apps_v1,
    core_v1,
    is_deleting,
    key_of,
    run,
)

RESTART_ON = "example.com/restart-on"
HASH = "example.com/config-hash"


def config_map_of(deployment: apps_v1.Deployment) -> str:
    """Return the name of the config map, empty for none."""
    return (deployment.metadata.annotations or {}).get(RESTART_ON, "")


def _named(deployment: apps_v1.Deployment) -> Iterable[str]:
    """Yield the key of the config map that a deployment names."""
    if name := config_map_of(deployment):
        yield f"{deployment.metadata.namespace}/{name}"


# So a change of a config map costs nothing for deployments that name another one.
BY_CONFIG_MAP = Index(
    "config map", _named, depends_on=DependsOn("metadata.annotations")
)


class RestartOnConfig(Reconciler[apps_v1.Deployment]):
    """Keeps the hash in each pod template equal to that of the config map."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context, and a lister with the index."""
        super().__init__(context)
        self._deployments = context.lister(apps_v1.DEPLOYMENTS, BY_CONFIG_MAP)

    def _users_of(self, config_map: core_v1.ConfigMap) -> Iterable[str]:
        users = self._deployments.by_index(BY_CONFIG_MAP, key_of(config_map))
        return map(key_of, users)

    watches = (For(apps_v1.DEPLOYMENTS), Maps(core_v1.CONFIG_MAPS, _users_of))

    async def reconcile(self, deployment: apps_v1.Deployment) -> Outcome:
        """Write the hash if it is another one than that of the pod template."""
        name, namespace = config_map_of(deployment), deployment.metadata.namespace
        config_map = self.lister(core_v1.CONFIG_MAPS).get(namespace, name)
        if config_map is None or is_deleting(deployment):
            return DONE
        wanted = hash_of(config_map)
        present = deployment.spec.template.metadata.annotations or {}
        if present.get(HASH) != wanted:
            template = {"metadata": {"annotations": {HASH: wanted}}}
            patch = {"spec": {"template": template}}
            await self.client.patch_exactly(apps_v1.DEPLOYMENTS, deployment, patch)
            message = f"The config map {name} has changed"
            about = (apps_v1.DEPLOYMENTS, deployment)
            self.recorder.event(*about, NORMAL, "Restarted", message)
        return DONE


def hash_of(config_map: core_v1.ConfigMap) -> str:
    """Return the hash of what a config map holds; its metadata do not count."""
    held = [config_map.data, config_map.binary_data]
    return sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]


CONTROLLER = Descriptor(
    name="restart-on-config",
    load=RestartOnConfig,
    permissions=(allow(apps_v1.DEPLOYMENTS, "patch"), *RECORD_EVENTS),
)

if __name__ == "__main__":
    run(CONTROLLER)
