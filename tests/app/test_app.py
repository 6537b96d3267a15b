"""The daemon starts and stops in upstream's order."""

import asyncio
import io
import json
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.app import ControllerManager, StartError
from controller_manager.client.builder import Connections
from controller_manager.client.errors import TransportError
from controller_manager.client.transport import Request, Response
from controller_manager.devcluster.kinds.apps.deployment import KIND as DEPLOYMENT
from controller_manager.observability.exposition import expose, go_float
from controller_manager.observability.logs import make_logger, silent_logger
from controller_manager.options.config import LeaderElectionConfig, RateLimit
from controller_manager.registry import known_names
from tests.clusters import Cluster, RecordingTransport, make_config, run_manager
from tests.controllers.builders import deployment_json
from tests.controllers.test_on_a_cluster import User, replica_set_json, settle

pytestmark = pytest.mark.looptime

DATA = Path(__file__).parent.parent / "data"


def manager_of(cluster: Cluster, log: io.StringIO | None = None) -> ControllerManager:
    logger = make_logger(verbosity=2, stream=log) if log else silent_logger()
    return ControllerManager(
        make_config(api_server_timeout=10.0),
        Connections(cluster.transport),
        clock=cluster.clock,
        rng=cluster.rng,
        logger=logger,
    )


async def test_an_api_server_that_stays_away_is_reported(cluster: Cluster) -> None:
    """After ten seconds, with what is wrong."""

    async def refuse(request: Request) -> Response:
        msg = f"{request.method} {request.path}: cannot connect: Connection refused"
        raise TransportError(msg)

    cluster.server.handle = refuse  # type: ignore[method-assign]
    problem = (
        "failed to wait for apiserver being healthy within 10 s: "
        "GET /healthz: cannot connect: Connection refused"
    )
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match=problem)):
        await manager_of(cluster).run(asyncio.Event())
    assert asyncio.get_running_loop().time() == pytest.approx(9, abs=1.1)


async def test_an_api_server_that_comes_late_is_waited_for(cluster: Cluster) -> None:
    """And then everything runs."""
    handle = cluster.server.handle

    async def late(request: Request) -> Any:
        if cluster.clock.monotonic() < 5:
            return Response(500, {}, b"[-]etcd failed")
        return await handle(request)

    cluster.server.handle = late  # type: ignore[method-assign]
    async with cluster.manager(make_config(api_server_timeout=10.0)):
        user = User(cluster)
        await user.create(DEPLOYMENTS, deployment_json(replicas=2))
        await settle()
        assert len(await user.pods()) == 2


async def test_a_controller_whose_resources_are_missing_is_skipped(
    cluster: Cluster,
) -> None:
    """With a warning that names them; the others run."""
    cluster.server.catalogue.remove(DEPLOYMENT)
    log = io.StringIO()
    async with cluster.manager(logger=make_logger(stream=log)):
        await User(cluster).create(REPLICASETS, replica_set_json())
        await settle()
        assert len(await User(cluster).pods()) == 3
    assert (
        'Controller skipped, the API server lacks its resources" '
        'controller="deployment-controller" missing="apps/v1/deployments"'
    ) in log.getvalue()


@pytest.mark.parametrize(
    ("selection", "started"),
    [
        (("*",), set(known_names())),
        (("*", "-deployment"), set(known_names()) - {"deployment-controller"}),
        (("deployment",), {"deployment-controller"}),
        (("replicaset-controller",), {"replicaset-controller"}),
    ],
)
async def test_only_the_selected_controllers_run(
    cluster: Cluster, selection: tuple[str, ...], started: set[str]
) -> None:
    """By name or old alias."""
    log = io.StringIO()
    config = make_config(controllers=selection)
    async with cluster.manager(config, logger=make_logger(stream=log)):
        await settle(1)
    names = {
        line.partition('controller="')[2].partition('"')[0]
        for line in log.getvalue().splitlines()
        if "Starting controller" in line
    }
    assert names == started


async def test_controllers_start_one_after_the_other(cluster: Cluster) -> None:
    """With the interval, lengthened at random by up to as much again."""
    loop = asyncio.get_running_loop()
    async with cluster.manager(make_config(controller_start_interval=10.0)):
        assert 20 <= loop.time() <= 40.1


async def test_stopping_finishes_what_is_in_progress(cluster: Cluster) -> None:
    """No sync is cut off, and events that were recorded are written."""
    handle = cluster.server.handle

    async def slow(request: Request) -> Any:
        if request.method != "GET":
            await asyncio.sleep(2)
        return await handle(request)

    cluster.server.handle = slow  # type: ignore[method-assign]
    user = User(cluster)
    async with cluster.manager(make_config(controllers=("replicaset",))):
        await user.create(REPLICASETS, replica_set_json(replicas=3))
        await asyncio.sleep(1)
    assert len(await user.pods()) == 3
    assert len(await user.events("SuccessfulCreate")) >= 1


async def test_a_sync_that_hangs_does_not_keep_the_daemon(cluster: Cluster) -> None:
    """After the shut-down timeout it is cut short."""
    handle = cluster.server.handle

    async def hang(request: Request) -> Any:
        if request.method == "POST" and request.path.endswith("/pods"):
            await asyncio.sleep(10_000)
        return await handle(request)

    loop = asyncio.get_running_loop()
    user = User(cluster)
    await user.create(REPLICASETS, replica_set_json(replicas=3))
    cluster.server.handle = hang  # type: ignore[method-assign]
    async with cluster.manager(make_config(controller_shutdown_timeout=5.0)):
        await asyncio.sleep(1)
        stopped_at = loop.time()
    assert loop.time() - stopped_at < 10


async def test_every_write_is_one_that_upstreams_roles_allow(
    cluster: Cluster,
) -> None:
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


async def test_the_metrics_have_upstreams_names_labels_and_buckets(
    cluster: Cluster,
) -> None:
    """What dashboards ask for, series by series."""
    recording = RecordingTransport(cluster.transport)
    registry = CollectorRegistry()
    manager = ControllerManager(
        make_config(leader_election=LeaderElectionConfig()),
        Connections(recording),
        clock=cluster.clock,
        rng=random.Random(1),
        logger=silent_logger(),
        registry=registry,
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.005, "0.005"),
        (64.0, "64"),
        (262144.0, "262144"),
        (1048576.0, "1.048576e+06"),
        (9.999999999999999e-06, "9.999999999999999e-06"),
        (1e-08, "1e-08"),
        (2592000.0, "2.592e+06"),
    ],
)
async def test_bounds_are_written_as_go_writes_them(value: float, text: str) -> None:
    """Prometheus tells series apart by the text."""
    assert go_float(value) == text


async def test_two_managers_may_live_in_one_process(cluster: Cluster) -> None:
    """Nothing is global: registries, clocks, randomness."""
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


async def test_one_controller_may_have_a_limit_of_its_own(cluster: Cluster) -> None:
    """The others keep theirs."""
    config = make_config()
    limits = {"replicaset-controller": RateLimit(qps=1, burst=1)}
    limited = replace(config, client=replace(config.client, controllers=limits))
    user = User(cluster)
    async with cluster.manager(limited):
        for name in ("a", "b", "c"):
            await user.create(DEPLOYMENTS, deployment_json(name, replicas=1))
        await asyncio.sleep(0.5)
        # Three at once by the one controller, one by the other.
        listed = await cluster.client.list_page(REPLICASETS)
        assert len(listed.items) == 3
        assert len(await user.pods()) == 1
        await asyncio.sleep(10)
        assert len(await user.pods()) == 3


async def test_a_plugins_credential_is_seen_to_end(cluster: Cluster) -> None:
    """In seconds from now; without an end, never."""
    ends_at = cluster.clock.now() + timedelta(seconds=90)
    connections = Connections(cluster.transport, credential_ends_at=lambda: ends_at)
    registry = CollectorRegistry()
    manager = ControllerManager(
        make_config(),
        connections,
        clock=cluster.clock,
        rng=cluster.rng,
        logger=silent_logger(),
        registry=registry,
    )
    name = "rest_client_exec_plugin_ttl_seconds"
    assert registry.get_sample_value(name) == float("inf")
    await asyncio.sleep(30)
    manager._refresh()
    assert registry.get_sample_value(name) == 60


async def test_settings_of_the_config_reach_the_client(cluster: Cluster) -> None:
    """With one request a second, three pods take seconds."""
    config = make_config()
    limited = replace(
        config, client=replace(config.client, limit=RateLimit(qps=1, burst=1))
    )
    user = User(cluster)
    await user.create(REPLICASETS, replica_set_json(replicas=5))
    async with cluster.manager(limited):
        await asyncio.sleep(2.5)
        assert len(await user.pods()) == 3
        await asyncio.sleep(10)
        assert len(await user.pods()) == 5


async def test_a_look_at_its_health_changes_nothing(cluster: Cluster) -> None:
    """No informer comes of it that nobody would ever start."""
    config = make_config(controllers=("*",))
    connections = Connections(cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        before = manager.informers.all()
        for check in manager._health_checks().values():
            assert check() is None
        assert manager.informers.all() == before
        with pytest.raises(RuntimeError, match="not asked for before the start"):
            manager.informers.informer(CONFIG_MAPS)
