"""Short ways to make budgets and pods for tests."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import msgspec

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.api.policy.v1 import (
    BUDGETS,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Request, Transport
from controller_manager.controllers.apps.disruption.controller import (
    DisruptionReconciler,
)
from controller_manager.options.config import Config
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config
from tests.controllers.apps.statefulset.builders import stateful_set_json
from tests.controllers.builders import (
    deployment_json,
    replica_set_json,
    replication_controller_json,
)
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import User, settle

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return the time so many seconds after `NOW`."""
    return format_time(NOW + timedelta(seconds=seconds))


def budget_json(name: str = "pdb", app: str = "web", **spec: Any) -> JSON:
    """Return a budget of the pods of an app, as a user would write it."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def budget(status: JSON | None = None, **spec: Any) -> PodDisruptionBudget:
    body = budget_json(**spec)
    body["metadata"] |= {"generation": 2, "resourceVersion": "7", "uid": "b"}
    return msgspec.convert({**body, "status": status or {}}, PodDisruptionBudget)


def pod_json(name: str = "a", app: str = "web", owner: JSON | None = None) -> JSON:
    """Return a pod of an app; `owner` is a reference to its controller."""
    metadata: JSON = {"name": name, "namespace": "default", "labels": {"app": app}}
    if owner:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    containers = [{"name": "c", "image": "app:v1"}]
    return {"metadata": metadata, "spec": {"containers": containers}}


CONTROLLERS = ("disruption-controller",)


def writes_status(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("pdb/status")


class Guard(User):
    """A user of budgets and of the pods that they guard."""

    async def budget(self, name: str = "pdb") -> PodDisruptionBudget:
        return await self.client.get(BUDGETS, "default", name)

    async def status(self, name: str = "pdb") -> PodDisruptionBudgetStatus:
        return (await self.budget(name)).status

    async def numbers(self, name: str = "pdb") -> tuple[int, int, int, int]:
        """Return how many pods are expected, desired, healthy, and may be evicted."""
        status = await self.status(name)
        return (
            status.expected_pods,
            status.desired_healthy,
            status.current_healthy,
            status.disruptions_allowed,
        )

    async def reason(self, name: str = "pdb") -> tuple[str, str, str]:
        (condition,) = (await self.status(name)).conditions or ()
        return condition.status, condition.reason, condition.message

    async def guard(self, name: str = "pdb", app: str = "web", **spec: Any) -> None:
        """Create a budget, and let the controller see it."""
        await self.create(BUDGETS, budget_json(name, app, **spec))
        await settle(1)

    async def add_pods(self, *names: str, owner: JSON | None = None) -> None:
        """Create pods that are ready, and let the controller see them."""
        for name in names:
            await self.create(PODS, pod_json(name, owner=owner))
            await self.make_ready(name)
        await settle(1)

    async def own(self, name: str = "rs", replicas: int = 3, **metadata: Any) -> JSON:
        """Create a replica set; return the reference that makes it an owner."""
        body = replica_set_json(name, replicas)
        body["metadata"] |= metadata
        made = await self.create(REPLICASETS, body)
        return reference(REPLICASETS, name, made.metadata.uid)

    async def own_of(
        self, name: str, replicas: str, of: JSON, fields: JSON | None = None
    ) -> JSON:
        """Create a replica set of a deployment, whose reference has other fields."""
        (owner,) = of["ownerReferences"]
        metadata = {"ownerReferences": [{**owner, **(fields or {})}]}
        return await self.own(name, int(replicas), **metadata)

    async def replica_set(self, replicas: str) -> JSON:
        return await self.own("web", int(replicas))

    async def stateful_set(self, replicas: str) -> JSON:
        body = stateful_set_json(replicas=int(replicas))
        made = await self.create(STATEFUL_SETS, body)
        return reference(STATEFUL_SETS, "web", made.metadata.uid)

    async def replication_controller(self, replicas: str) -> JSON:
        body = replication_controller_json("web", int(replicas))
        made = await self.create(REPLICATION_CONTROLLERS, body)
        return reference(REPLICATION_CONTROLLERS, "web", made.metadata.uid)

    async def add_owned(self, *names: str, owner: JSON, fields: JSON) -> None:
        await self.add_pods(*names, owner={**owner, **fields})

    async def give(self, name: str, owner: JSON) -> None:
        """Give a pod another owner."""
        owners = [{**owner, "controller": True}]
        await self.patch(PODS, name, {"metadata": {"ownerReferences": owners}})

    async def define(self, *, scale: bool) -> None:
        await self.create(
            DEFINITIONS, definition(subresources=SCALABLE if scale else None)
        )

    async def widget(self, size: str) -> JSON:
        body: JSON = {"apiVersion": "example.com/v1", "kind": "Widget"}
        body |= {"metadata": {"name": "w"}, "spec": {"size": int(size)}}
        made = await self.create(WIDGETS, body)
        return reference(WIDGETS, "w", made["metadata"]["uid"])

    async def resize(self, size: str) -> None:
        await self.patch(WIDGETS, "w", {"spec": {"size": int(size)}})

    async def deploy(self, replicas: int | str) -> JSON:
        """Create a deployment; return metadata of its replica sets."""
        made = await self.create(DEPLOYMENTS, deployment_json(replicas=int(replicas)))
        owner = reference(DEPLOYMENTS, "web", made.metadata.uid)
        return {"ownerReferences": [{**owner, "controller": True}]}

    async def make_unready(self, name: str) -> None:
        await self.set_condition(name, type="Ready", status="False")
        await settle(1)

    async def set_condition(self, name: str, **condition: Any) -> None:
        await self._write_status(PODS, name, conditions=[condition])

    async def record_eviction(self, name: str, at: str) -> None:
        """Write into the status what an API server writes that allows an eviction."""
        allowed = (await self.status()).disruptions_allowed - 1
        await self.write_status(disruptedPods={name: at}, disruptionsAllowed=allowed)

    async def write_status(self, **status: Any) -> None:
        await self._write_status(BUDGETS, "pdb", PatchType.MERGE, **status)

    async def _write_status(
        self,
        resource: AnyResource,
        name: str,
        kind: PatchType = PatchType.STRATEGIC,
        **status: Any,
    ) -> None:
        patch = self.client.patch
        await patch(resource, "default", name, {"status": status}, kind, "status")

    async def evict(self, name: str, **options: Any) -> tuple[int, JSON]:
        """Evict a pod; return the code and the body of the answer."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"},
            **({"deleteOptions": options} if options else {}),
        }
        path = f"{PODS.path('default', name)}/eviction"
        headers = {"authorization": f"Bearer {TOKEN}"}
        headers["content-type"] = "application/json"
        encoded = json.dumps(body).encode()
        request = Request("POST", path, headers=headers, body=encoded)
        answer = await self.cluster.transport.request(request)
        return answer.status, json.loads(answer.body)

    async def refusal_of(self, name: str) -> list[Any]:
        """Return the code, reason and message of the refusal of an eviction."""
        code, answer = await self.evict(name)
        (cause,) = answer["details"]["causes"]
        return [code, cause["reason"], cause["message"]]

    async def first_told(self, reason: str) -> tuple[str, str, str, str]:
        return (await self.told(reason))[0]

    async def conditions_of(self, name: str) -> dict[str, JSON]:
        """Return the conditions of a pod by type, with all their fields."""
        pod = await self.client.get_json(PODS, "default", name)
        found = pod.get("status", {}).get("conditions", [])
        return {each["type"]: each for each in found}

    async def told(self, reason: str) -> list[tuple[str, str, str, str]]:
        """Return object, type, source and message of the events of a reason."""
        return [
            (each.involved_object.name, each.type, each.source.component, each.message)
            for each in await self.events(reason)
        ]


def reference(resource: AnyResource, name: str, uid: str) -> JSON:
    version, kind = resource.api_version, resource.kind
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid}


def config(**generic: Any) -> Config:
    return make_config(controllers=CONTROLLERS, **generic)


@asynccontextmanager
async def running(
    cluster: Cluster, transport: Transport | None = None
) -> AsyncGenerator[tuple[Guard, RecordingTransport], None]:
    """Run a manager with the disruption controller only."""
    async with cluster.manager(config(), transport) as recording:
        yield Guard(cluster), recording


@contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """Yield a list that gets the name of each budget that is reconciled."""
    names: list[str] = []
    reconcile = DisruptionReconciler.reconcile

    async def counting(self: DisruptionReconciler, obj: PodDisruptionBudget) -> Any:
        names.append(obj.metadata.name)
        return await reconcile(self, obj)

    with mock.patch.object(DisruptionReconciler, "reconcile", counting):
        yield names
