"""A preview beside a manager finds no divergence, unless there is one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.batch.v1 import CRON_JOBS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.apps.deployment import controller
from controller_manager.controllers.apps.deployment.status import calculate_status
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.preview.report import ReportedField
from tests.clusters import TOKEN, Cluster, make_config
from tests.controllers.builders import deployment_json
from tests.controllers.user import User
from tests.preview.shadow import Shadow, previewing, settle, shadow, shadowed

pytestmark = pytest.mark.looptime


def _found(running: Shadow) -> set[tuple[str, str, str, str]]:
    return {
        (each.controller, each.verb, each.only, each.object)
        for each in running.report.divergences
    }


async def test_rollouts_and_scaling_are_confirmed(cluster: Cluster) -> None:
    user = User(cluster)
    async with cluster.nodes(), shadowed(cluster) as running:
        await user.create(DEPLOYMENTS, deployment_json())
        await settle(60)
        for change in (
            {"replicas": 5},
            {"template": {"metadata": {"annotations": {"a": "b"}}}},
            {"replicas": 2},
        ):
            await user.patch(DEPLOYMENTS, "web", {"spec": change})
            await settle(120)
        assert running.report.divergences == []
        assert running.report.pending == []
        assert running.report.confirmed_writes > 0


async def test_a_watch_begun_again_shows_no_old_changes(cluster: Cluster) -> None:
    """Watches end after five to ten minutes; nothing is decided on an old state."""
    user = User(cluster)
    async with cluster.nodes(), shadowed(cluster) as running:
        await user.create(DEPLOYMENTS, deployment_json())
        await settle(60)
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}})
        await settle(60)
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await settle(1800)
        assert running.report.divergences == []


@pytest.mark.slow
async def test_a_preview_alone_reports_each_write_once(cluster: Cluster) -> None:
    user = User(cluster)
    async with shadow(cluster, previewing(make_config())) as running:
        await user.create(DEPLOYMENTS, deployment_json())
        await settle(25)
        assert running.report.divergences == []
        assert running.report.pending != []
        await settle(10)
        assert "deployment-controller" not in {each[0] for each in _found(running)}
        await settle(40)
        first = _found(running)
        assert {each[:3] for each in first} >= {
            ("deployment-controller", "create", "preview")
        }
        await settle(3600)
        counts = [each.count for each in running.report.divergences]
        assert max(counts) <= 10
        logged = running.log.getvalue().count("The preview differs")
        assert logged == sum(counts)
    assert (await cluster.client.list_page(REPLICASETS)).items == []
    assert (await cluster.client.list_page(PODS)).items == []


async def test_a_write_that_only_the_preview_makes_is_found(cluster: Cluster) -> None:
    user = User(cluster)
    config = make_config(controllers=("deployment-controller",))
    async with shadowed(cluster, config, make_config()) as running:
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await settle(80)
        (replica_set,) = (await cluster.client.list_page(REPLICASETS)).items
        name = replica_set.metadata.name
        pods = f"pods default/{name}-* of ReplicaSet {name}"
        created = ("replicaset-controller", "create", "preview", pods)
        assert created in _found(running)


IN_PREVIEW: ContextVar[bool] = ContextVar("in_preview", default=False)


@asynccontextmanager
async def _deviating(cluster: Cluster) -> AsyncGenerator[Shadow, None]:
    """Run both managers; only code of the preview sees `IN_PREVIEW`."""
    async with cluster.manager(make_config()):
        token = IN_PREVIEW.set(True)
        running = shadow(cluster, previewing(make_config()))
        entered = await running.__aenter__()
        IN_PREVIEW.reset(token)
        try:
            yield entered
        finally:
            await running.__aexit__(None, None, None)


async def test_a_changed_decision_is_found_with_both_values(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(cluster)
    original = calculate_status

    def wrong(*arguments: Any, **options: Any) -> Any:
        status = original(*arguments, **options)
        return replace(status, ready_replicas=7) if IN_PREVIEW.get() else status

    monkeypatch.setattr(f"{controller.__name__}.calculate_status", wrong)
    async with cluster.nodes(), _deviating(cluster) as running:
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await settle(120)
        (found,) = running.report.divergences
        assert (found.controller, found.verb, found.only, found.object) == (
            "deployment-controller",
            "update",
            "both",
            "deployments.apps default/web",
        )
        assert found.fields == [ReportedField("status.readyReplicas", "7", "1")]


async def test_an_object_edited_behind_both_is_found(cluster: Cluster) -> None:
    """The manager in charge is gone when a user edits a replica set."""
    user = User(cluster)
    async with cluster.nodes():
        async with cluster.manager(make_config()):
            await user.create(DEPLOYMENTS, deployment_json(replicas=1))
            await settle(60)
        async with shadow(cluster, previewing(make_config())) as running:
            await settle(60)
            assert running.report.divergences == []
            (replica_set,) = (await cluster.client.list_page(REPLICASETS)).items
            name = replica_set.metadata.name
            patch = {"spec": {"replicas": 3}}
            await cluster.client.patch(
                REPLICASETS, "default", name, patch, PatchType.MERGE
            )
            await settle(60)
            found = running.report.divergences
            assert ReportedField("spec.replicas", "1", "3") in [
                field for each in found for field in each.fields
            ]


@pytest.mark.slow
async def test_nothing_grows_while_a_preview_runs_alone(cluster: Cluster) -> None:
    user = User(cluster)
    async with shadow(cluster, previewing(make_config())) as running:
        for number in range(20):
            await user.create(DEPLOYMENTS, deployment_json(f"web-{number}"))
        await settle(20)
        entries = running.report.overlay_entries
        assert entries > 20
        await settle(600)
        assert running.report.overlay_entries <= entries + 20
        for number in range(20):
            await cluster.client.delete(DEPLOYMENTS, "default", f"web-{number}")
        await settle(120)
        assert running.report.pending == []


NO_NODE_TAINT = {"key": "drain", "effect": "NoExecute"}


@pytest.mark.slow
async def test_work_that_the_preview_lacks_is_found(cluster: Cluster) -> None:
    """The preview would undo neither: a run of a cron job, and an eviction."""
    user = User(cluster)
    charge = InMemoryTransport(cluster.server, TOKEN, "kube-controller-manager/v1.36")
    everything = ("*",)
    without = ("*", "-cronjob-controller", "-taint-eviction-controller")
    async with (
        cluster.nodes(),
        cluster.manager(make_config(controllers=everything), charge),
        shadow(cluster, previewing(make_config(controllers=without))) as running,
    ):
        await user.create(DEPLOYMENTS, deployment_json(replicas=1))
        await user.create(CRON_JOBS, _every_minute())
        await settle(90)
        (pod,) = [
            each
            for each in (await cluster.client.list_page(PODS)).items
            if each.metadata.name.startswith("web")
        ]
        node = pod.spec.node_name
        await cluster.client.patch(
            NODES, "", node, {"spec": {"taints": [NO_NODE_TAINT]}}, PatchType.MERGE
        )
        await settle(90)
        found = _found(running)
        assert {each[:3] for each in found} == {
            ("cronjob-controller", "create", "real"),
            ("taint-eviction-controller", "delete", "real"),
        }
        evicted = f"pods default/{pod.metadata.name}"
        assert ("taint-eviction-controller", "delete", "real", evicted) in found
        jobs = [each[3] for each in found if each[1] == "create"]
        assert {each.rpartition("-")[0] for each in jobs} == {"jobs.batch default/tick"}


def _every_minute() -> Any:
    template = {
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "app", "image": "nginx:1.27"}],
                }
            }
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": template},
    }


async def test_a_controller_writes_no_others_objects(cluster: Cluster) -> None:
    """A restored backup has managing owners, too."""
    controllers = ("*", "-replicaset-controller", "-garbage-collector-controller")
    async with shadow(
        cluster, previewing(make_config(controllers=controllers))
    ) as running:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        owner |= {"name": "web", "uid": "00000000-0000-0000-0000-000000000001"}
        cluster.add(
            "Pod",
            "web-restored",
            metadata={"name": "web-restored", "ownerReferences": [owner]},
            spec={"containers": [{"name": "app", "image": "nginx:1.27"}]},
        )
        await settle(60)
        assert {each for each in _found(running) if each[2] == "real"} == set()
