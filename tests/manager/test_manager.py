"""The manager connects its parts, and serves their metrics."""

import asyncio
import json
import random
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import CONFIG_MAPS, NODES, PODS
from controller_manager.client.builder import Connections
from controller_manager.manager.manager import ControllerManager
from controller_manager.observability.exposition import expose
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.registry import registry as this_build
from tests.clusters import Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.builders import deployment_json
from tests.controllers.user import User, settle
from tests.manager.daemons import Daemon, RefusedDaemon

pytestmark = pytest.mark.looptime

DATA = Path(__file__).parent.parent / "data"


async def test_every_write_is_one_that_upstreams_roles_allow(cluster: Cluster) -> None:
    """A verb beyond the bootstrap roles would be refused on a real cluster."""
    roles = json.loads((DATA / "rbac.json").read_text())
    allowed = {
        (resource, verb)
        for name in ("deployment-controller", "replicaset-controller")
        for _, resources, verbs in roles[name]
        for resource in resources.split(", ")
        for verb in verbs.split(",")
    }
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    user = User(cluster)
    async with cluster.nodes(), cluster.manager() as recording:
        await user.create(DEPLOYMENTS, deployment_json(revisionHistoryLimit=0))
        await settle()
        await user.set_image("app:v2")
        await settle(60)
        await user.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        annotations = {"deprecated.deployment.rollback.to": "0"}
        await user.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": annotations}})
        await settle()
    used = set()
    for write in recording.writes:
        parts = write.path.partition("/namespaces/default/")[2].split("/")
        resource = "/".join([parts[0], *parts[2:]])
        used.add((resource, verbs[write.method]))
    assert used <= allowed
    assert ("replicasets", "delete") in used


async def test_the_metrics_have_upstreams_names(cluster: Cluster) -> None:
    recording = RecordingTransport(cluster.transport)
    registry = CollectorRegistry()
    manager = ControllerManager(
        make_config(leader_election=LeaderElectionConfig()),
        Connections(recording),
        clock=cluster.clock,
        rng=random.Random(1),
        logger=silent_logger(),
        registry=registry,
        build=this_build(),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    await manager.started.wait()
    await User(cluster).create(DEPLOYMENTS, deployment_json())
    await settle()
    families = {
        family.name: family
        for family in text_string_to_metric_families(expose(registry).decode())
    }
    stop.set()
    await running
    missing: dict[str, object] = {}
    for wanted in json.loads((DATA / "metrics.json").read_text()):
        family = families.get(wanted["name"].removesuffix("_total"))
        if family is None or family.type != wanted["type"]:
            missing[wanted["name"]] = family
            continue
        labels = {
            tuple(sorted(key for key in sample.labels if key != "le"))
            for sample in family.samples
        }
        bounds = [s.labels["le"] for s in family.samples if "le" in s.labels]
        buckets = list(dict.fromkeys(bounds))
        if labels - {tuple(sorted(wanted["labels"]))} or buckets != wanted.get(
            "buckets", []
        ):
            missing[wanted["name"]] = (labels, buckets)
    assert missing == {}
    names = {s.labels["name"] for s in families["workqueue_adds"].samples}
    assert names == {"deployment", "replicaset"}


async def test_two_managers_may_live_in_one_process(cluster: Cluster) -> None:
    """They share no registry, clock or random source."""
    other = Cluster()
    async with (
        run_manager(
            Connections(cluster.transport),
            cluster.clock,
            random.Random(1),
            make_config(),
        ),
        run_manager(
            Connections(other.transport), other.clock, random.Random(2), make_config()
        ),
    ):
        await User(cluster).create(DEPLOYMENTS, deployment_json())
        await settle()
    assert len(await User(cluster).pods()) == 3
    assert await User(other).pods() == []


async def test_the_time_left_of_a_plugin_is_a_metric(cluster: Cluster) -> None:
    expires_at = cluster.clock.now() + timedelta(seconds=90)
    connections = Connections(
        cluster.transport, credential_expires_at=lambda: expires_at
    )
    registry = CollectorRegistry()
    manager = ControllerManager(
        make_config(),
        connections,
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        registry=registry,
        build=this_build(),
    )
    name = "rest_client_exec_plugin_ttl_seconds"
    assert registry.get_sample_value(name) == float("inf")
    await asyncio.sleep(30)
    manager._refresh()
    assert registry.get_sample_value(name) == 60


async def test_a_health_check_changes_nothing(cluster: Cluster) -> None:
    """It makes no informer, because nothing would start it."""
    config = make_config(controllers=("*",))
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        before = manager.informers.all()
        for check in manager.healthz().values():
            assert check() is None
        assert manager.informers.all() == before
        with pytest.raises(RuntimeError, match="not requested before the start"):
            manager.informers.informer(CONFIG_MAPS)


async def test_the_longest_turn_is_measured(cluster: Cluster) -> None:
    daemon = RefusedDaemon(cluster)
    async with daemon.running("ttl", elects=False) as manager:
        await manager.started.wait()
        await cluster.client.create_json(NODES, "", b'{"metadata":{"name":"a"}}')
        await asyncio.sleep(1)
        name = "event_loop_longest_turn_seconds"
        measured = daemon.registry.get_sample_value(name)
        assert measured is not None
        assert measured > 0
        await asyncio.sleep(300)
        assert daemon.registry.get_sample_value(name) == 0


async def test_rollouts_are_measured(cluster: Cluster) -> None:
    """From the first sync to the completing one; a replaced pod is no rollout."""
    daemon = Daemon(cluster, "a")
    await daemon.manager.started.wait()
    user = User(cluster)
    async with cluster.nodes(start_delay=5.0):
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle(30)
        pods = await user.pods()
        await cluster.client.delete(PODS, "default", pods[0].metadata.name)
        await settle(60)
    registry = daemon.manager._registry
    count = registry.get_sample_value("deployment_rollout_duration_seconds_count")
    total = registry.get_sample_value("deployment_rollout_duration_seconds_sum")
    assert count == 1
    assert total == pytest.approx(5, abs=1)
    await daemon.stopped()
