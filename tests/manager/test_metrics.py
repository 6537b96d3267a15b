"""The whole manager: its metrics, its writes and its parts."""

import asyncio
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.api.apps.v1 import DEPLOYMENTS
from controller_manager.api.core.v1 import CONFIG_MAPS, NODES, PODS
from controller_manager.client.builder import Connections
from controller_manager.observability.exposition import expose
from controller_manager.options.config import LeaderElectionConfig
from tests.clusters import (
    ROOT_CA,
    Cluster,
    RecordingTransport,
    make_config,
    manager_of,
    running_manager,
)
from tests.controllers.builders import deployment_json
from tests.controllers.custom_resources import DEFINITIONS, definition
from tests.controllers.user import User, settle
from tests.manager.daemons import Daemon, RefusedDaemon

pytestmark = pytest.mark.looptime


DATA = Path(__file__).parent.parent / "data"
Exposed = Mapping[str, tuple[str, tuple[str, ...]]]
"""By name: the type, and the names of the labels."""

NOT_HERE: Final = {
    "aggregator_discovery_": "of the API server's aggregator, which is linked in",
    "apiextensions_apiserver_": "of the validation of custom resources",
    "apiserver_": "of the API server library: audit, storage, webhooks, delegation",
    "authentication_token_cache_": "of the API server library's cache of tokens",
    "cardinality_enforcement_": "no flag restricts label values here",
    "hidden_metrics_total": "of component-base's registry: nothing is hidden here",
    "registered_metrics_total": (
        "of component-base's registry: metrics have no stability level here"
    ),
}
"""Upstream's metrics that there are none of here, by prefix, with the reason."""


NOT_RECORDED: Final = {
    "informer_store_resource_version": (
        "gauge",
        ("group", "name", "resource", "version"),
    ),
    "rest_client_dns_resolution_duration_seconds": ("histogram", ("host", "le")),
    "rest_client_exec_plugin_call_total": ("counter", ("call_status", "code")),
    "rest_client_exec_plugin_policy_call_total": ("counter", ("allowed", "denied")),
    "rest_client_transport_ca_reload_total": ("counter", ("reason", "result")),
    "rest_client_transport_cache_gc_calls_total": ("counter", ("result",)),
}
"""Upstream's metrics of which the recorded manager had none.

It had the server's address, no exec plugin, and files that did not change.
"""


def not_here(name: str) -> bool:
    return name.startswith(tuple(NOT_HERE))


def exposed_by(registry: CollectorRegistry) -> Exposed:
    """Return the metrics of a scrape, and the metrics that have no series yet."""
    types: dict[str, str] = {}
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for line in expose(registry).decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            types[name] = kind
        elif not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            if name not in types:  # a histogram's
                name = name.rpartition("_")[0]
            found[name] = _typed(types[name], re.findall(r'(\w+)="', line))
    for collector in registry._collector_to_names:
        for metric in collector.collect():
            labels = _declared(collector, metric)
            for name in {metric.name, f"{metric.name}_total"} & types.keys():
                found.setdefault(name, _typed(types[name], labels))
    return found


def _declared(collector: Any, metric: Any) -> Sequence[str]:
    labels: Sequence[str] = getattr(metric, "_labelnames", ())
    if isinstance(collector, MetricWrapperBase):
        labels = collector._labelnames
    return labels


def _typed(kind: str, labels: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    bounds = {"le"} if kind == "histogram" else set()
    return kind, tuple(sorted({*labels, *bounds}))


async def test_the_metrics_are_those_of_upstream(cluster: Cluster) -> None:
    registry = CollectorRegistry()
    config = make_config(
        controllers=("*", "bootstrap-signer-controller", "token-cleaner-controller"),
        leader_election=LeaderElectionConfig(),
    )
    config = replace(
        config,
        pod_ranges=replace(config.pod_ranges, allocate=True, cluster="10.0.0.0/16"),
    )
    manager = manager_of(
        cluster,
        config,
        Connections(cluster.transport, root_ca=ROOT_CA),
        registry=registry,
    )
    async with running_manager(manager):
        await User(cluster).create(DEPLOYMENTS, deployment_json())
        await settle()
        ours = exposed_by(registry)
    recorded = json.loads((DATA / "metrics-exposed.json").read_text())
    relied_upon = json.loads((DATA / "metrics.json").read_text())
    upstream: Exposed = {
        **NOT_RECORDED,
        **{each["name"]: _typed(each["type"], each["labels"]) for each in relied_upon},
        **{
            name: _typed(each["type"], each["labels"])
            for name, each in recorded.items()
        },
    }
    wanted = {name: each for name, each in upstream.items() if not not_here(name)}
    assert {name: ours.get(name) for name in wanted} == wanted
    assert [each for each in NOT_HERE if not any(map(_begins(each), upstream))] == []
    assert [name for name in ours if not_here(name)] == []


def _begins(prefix: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefix)


async def test_the_versions_are_the_emulated_ones(cluster: Cluster) -> None:
    registry = CollectorRegistry()
    config = replace(
        make_config(), emulated_version="1.34", given_gates={"WatchList": False}
    )
    manager = manager_of(
        cluster,
        config,
        Connections(cluster.transport, root_ca=ROOT_CA),
        registry=registry,
    )
    async with running_manager(manager):
        lines = expose(registry).decode().splitlines()
    (version,) = [each for each in lines if each.startswith("version_info{")]
    assert version == (
        'version_info{binary="1.36",component="kube",emulation="1.34",'
        'min_compat="1.33"} 1.0'
    )
    gates = {each for each in lines if each.startswith("kubernetes_feature_enabled{")}
    wanted = {
        'kubernetes_feature_enabled{name="WatchList",stage="BETA"} 0.0',
        'kubernetes_feature_enabled{name="SidecarContainers",stage=""} 1.0',
    }
    assert wanted - gates == set()


async def test_no_metric_names_a_custom_resource_that_is_gone(cluster: Cluster) -> None:
    """The garbage collector and the quotas watch it until its definition is deleted."""
    registry = CollectorRegistry()
    config = make_config(
        controllers=("garbage-collector-controller", "resourcequota-controller")
    )
    manager = manager_of(
        cluster,
        config,
        Connections(cluster.transport, root_ca=ROOT_CA),
        registry=registry,
    )
    async with running_manager(manager):
        body = json.dumps(definition()).encode()
        await cluster.client.create_json(DEFINITIONS, "", body)
        await asyncio.sleep(60)
        named = [b"widgets" in expose(registry)]
        await cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(600)
        named.append(b"widgets" in expose(registry))
    assert named == [True, False]


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
    manager = manager_of(
        cluster,
        make_config(leader_election=LeaderElectionConfig()),
        Connections(recording),
        registry=registry,
    )
    async with running_manager(manager):
        await User(cluster).create(DEPLOYMENTS, deployment_json())
        await settle()
        families = {
            family.name: family
            for family in text_string_to_metric_families(expose(registry).decode())
        }
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
    two = manager_of(cluster), manager_of(other, rng=random.Random(2))
    async with running_manager(two[0]), running_manager(two[1]):
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
    manager = manager_of(cluster, connections=connections, registry=registry)
    name = "rest_client_exec_plugin_ttl_seconds"
    assert registry.get_sample_value(name) == float("inf")
    await asyncio.sleep(30)
    manager._refresh()
    assert registry.get_sample_value(name) == 60


async def test_a_health_check_changes_nothing(cluster: Cluster) -> None:
    """It makes no informer, because nothing would start it."""
    manager = manager_of(cluster, make_config(controllers=("*",)))
    async with running_manager(manager):
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
