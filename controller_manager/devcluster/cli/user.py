"""The user of the demo: changes workloads by a client of kubernetes_asyncio.

Import this module only when it is used: kubernetes_asyncio costs 40 MB.
"""

from datetime import datetime
from typing import Any, Final

from kubernetes_asyncio import utils
from kubernetes_asyncio.client import (
    ApiClient,
    AppsV1Api,
    AutoscalingV2Api,
    BatchV1Api,
    CoreV1Api,
    V1ReplicaSet,
)

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.manifests import Manifest

NAMESPACE: Final = "shop"
FEWEST: Final = 2
MOST: Final = 6
LITTLE: Final = "600m"
MUCH: Final = "3"

_REVISION: Final = "deployment.kubernetes.io/revision"
_EACH: Final = "500m"
_AUTOSCALER: Final[JSON] = {
    "metadata": {"name": "worker"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "worker",
        },
        "minReplicas": FEWEST,
        "maxReplicas": MOST,
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "AverageValue", "averageValue": _EACH},
                },
            }
        ],
        # By default it waits for five minutes before it removes pods.
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


class User:
    """Changes the workloads of the demo; raises ApiException for a refusal."""

    def __init__(self, api: ApiClient) -> None:
        """Take the client; its caller closes it."""
        self._api = api
        # Their annotations have only models as bodies; dictionaries serve as well.
        self._core: Any = CoreV1Api(api)
        self._apps: Any = AppsV1Api(api)
        self._batch: Any = BatchV1Api(api)
        self._autoscaling: Any = AutoscalingV2Api(api)

    async def create(self, manifest: Manifest) -> None:
        """Create the object of a manifest."""
        await utils.create_from_dict(
            self._api,
            manifest.obj,
            namespace=manifest.namespace,
            field_validation="Strict",
        )

    async def set_image(self, deployment: str, image: str) -> None:
        """Update the image of a deployment's container, which has its name."""
        patch = _image(deployment, image)
        await self._apps.patch_namespaced_deployment(deployment, NAMESPACE, patch)

    async def update_two(self) -> None:
        """Update the images of the stateful set and of the daemon set."""
        patch = _image("db", "postgres:18")
        await self._apps.patch_namespaced_stateful_set("db", NAMESPACE, patch)
        patch = _image("agent", "example.com/shop/agent:1.1")
        await self._apps.patch_namespaced_daemon_set("agent", NAMESPACE, patch)

    async def roll_back(self, name: str) -> None:
        """Restore the template of the previous revision, as rollout undo does.

        Raises LookupError if there is none.
        """
        deployment = await self._apps.read_namespaced_deployment(name, NAMESPACE)
        before = int(deployment.metadata.annotations[_REVISION]) - 1
        listed = await self._apps.list_namespaced_replica_set(NAMESPACE)
        for replica_set in listed.items:
            if _owner(replica_set) == name and _revision(replica_set) == before:
                template = replica_set.spec.template
                template.metadata.labels.pop("pod-template-hash", None)
                patch = [{"op": "replace", "path": "/spec/template", "value": template}]
                body = self._api.sanitize_for_serialization(patch)
                await self._apps.patch_namespaced_deployment(name, NAMESPACE, body)
                return
        msg = f"deployment {name} has no revision {before} to roll back to"
        raise LookupError(msg)

    async def scale(self, deployment: str, replicas: int) -> None:
        """Set the replicas of a deployment."""
        await self._apps.patch_namespaced_deployment_scale(
            deployment, NAMESPACE, {"spec": {"replicas": replicas}}
        )

    async def set_last_run(self, when: datetime) -> None:
        """Let the cron job have run then for the last time."""
        await self._batch.patch_namespaced_cron_job_status(
            "report", NAMESPACE, {"status": {"lastScheduleTime": format_time(when)}}
        )

    async def load(self, cpu: str) -> None:
        """Let the pods of worker share a load of CPU."""
        patch = {"metadata": {"annotations": {"devcluster/cpu": f"total:{cpu}"}}}
        await self._apps.patch_namespaced_deployment("worker", NAMESPACE, patch)

    async def autoscale(self) -> None:
        """Load worker with much, and create an autoscaler for it."""
        await self.load(MUCH)
        await self._autoscaling.create_namespaced_horizontal_pod_autoscaler(
            NAMESPACE, _AUTOSCALER
        )

    async def delete_autoscaler(self) -> None:
        """Delete the autoscaler of worker."""
        await self._autoscaling.delete_namespaced_horizontal_pod_autoscaler(
            "worker", NAMESPACE
        )

    async def delete_worker(self) -> None:
        """Delete worker once its pods have gone."""
        await self._apps.delete_namespaced_deployment(
            "worker", NAMESPACE, propagation_policy="Foreground"
        )

    async def delete_db(self) -> None:
        """Delete the stateful set."""
        await self._apps.delete_namespaced_stateful_set(
            "db", NAMESPACE, propagation_policy="Background"
        )

    async def delete_namespace(self) -> None:
        """Delete the namespace with all that is in it."""
        await self._core.delete_namespace(NAMESPACE)


def _image(name: str, image: str) -> JSON:
    containers = [{"name": name, "image": image}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def _owner(replica_set: V1ReplicaSet) -> str:
    owners = replica_set.metadata.owner_references or []
    return str(owners[0].name) if owners else ""


def _revision(replica_set: V1ReplicaSet) -> int:
    return int((replica_set.metadata.annotations or {}).get(_REVISION, "0"))
