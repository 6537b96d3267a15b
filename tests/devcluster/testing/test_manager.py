"""The manager of an author's controllers: in memory, on virtual time, confined."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from controller_manager.sdk import (
    DONE,
    Descriptor,
    Done,
    For,
    ObjectMeta,
    Outcome,
    Reconciler,
    SyncError,
    allow,
    apps_v1,
    core_v1,
)
from controller_manager.testing import ClusterError, VirtualManager
from tests.devcluster.testing import test_plugin
from tests.sdk.websites import (
    CONTROLLER,
    DEFINITION,
    WEBSITES,
    Website,
    WebsiteReconciler,
)

pytest_plugins = ("pytester",)

pytestmark = pytest.mark.looptime

WHERE = (apps_v1.DEPLOYMENTS, "default")


@pytest.fixture
def own_controllers() -> list[Descriptor]:
    return [CONTROLLER]


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    """Return a file with the definition of the custom resource."""
    file = tmp_path / "crd.yaml"
    file.write_text(json.dumps(DEFINITION.manifest()))
    return file


async def create(manager: VirtualManager, definition: Path) -> None:
    await manager.create_manifests(definition)
    site = Website(metadata=ObjectMeta(name="shop", namespace="default"))
    await manager.client.create(WEBSITES, site)


async def test_controllers_settle_and_an_hour_takes_no_time(
    manager: VirtualManager, definition: Path
) -> None:
    await create(manager, definition)
    before = manager.clock.now()
    await manager.settle(3600)
    assert (manager.clock.now() - before).total_seconds() >= 3600
    await manager.client.get(*WHERE, "web-shop")
    assert manager.writes == [
        "PATCH /apis/apps/v1/namespaces/default/deployments/web-shop"
    ]
    assert 'workqueue_adds_total{name="website-operator"} 2.0' in manager.metrics()
    assert '"Caches are synced"' in manager.log
    (event,) = (await manager.client.list_page(core_v1.EVENTS)).items
    assert event.reason == "Deployed"


async def test_flags_are_those_of_a_start(
    manager: VirtualManager, definition: Path
) -> None:
    await create(manager, definition)
    await manager.settle()
    await manager.stop()
    await manager.start("--website-prefix=w-")
    await manager.settle()
    await manager.client.get(*WHERE, "w-shop")
    with pytest.raises(RuntimeError, match="runs already; stop it"):
        await manager.start()
    await manager.stop()
    with pytest.raises(ClusterError, match="--kube-api-burst: invalid argument"):
        await manager.start("--kube-api-burst=x")


class Hasty(WebsiteReconciler):
    """Changes its website in each sync, which causes the next one."""

    async def reconcile(self, website: Website) -> Outcome:
        await self.client.patch(
            WEBSITES,
            "default",
            website.metadata.name,
            {"spec": {"replicas": website.spec.replicas + 1}},
        )
        return DONE


class NeverReady(Reconciler[Website]):
    """Changes a config map every half second."""

    watches = (For(WEBSITES),)

    async def reconcile(self, website: Website) -> Outcome:
        labels = {"at": str(self.clock.monotonic())}
        metadata = {"namespace": "default", "name": "a", "labels": labels}
        config = {"metadata": metadata, "data": {"of": website.metadata.name}}
        await self.client.apply(core_v1.CONFIG_MAPS, config)
        return Done(0.5)


class Failing(WebsiteReconciler):
    """Fails each sync."""

    async def reconcile(self, website: Website) -> Outcome:
        msg = f"{website.metadata.name} has no certificate"
        raise SyncError(msg)


async def test_a_request_that_no_permission_allows_is_named(definition: Path) -> None:
    """Once: a second look says nothing of it."""
    manager = VirtualManager([replace(CONTROLLER, load=NeverReady)])
    await create(manager, definition)
    with pytest.raises(
        AssertionError,
        match=r"^website-operator may not patch configmaps: give its Descriptor "
        r'allow\(<configmaps>, "patch"\) among the permissions$',
    ):
        await manager.settle()
    await manager.stop()
    manager.check_requests()


async def test_controllers_that_never_settle_are_reported(definition: Path) -> None:
    permissions = (allow(core_v1.CONFIG_MAPS, "create", "patch"),)
    restless = replace(CONTROLLER, load=NeverReady, permissions=permissions)
    manager = VirtualManager([restless])
    await create(manager, definition)
    with pytest.raises(AssertionError, match="did not settle within 60 s"):
        await manager.settle()
    await manager.stop()


async def test_writes_that_cause_the_next_sync_at_once_are_reported(
    definition: Path,
) -> None:
    """No time passes while they repeat, so the test would never end."""
    permissions = (allow(WEBSITES, "patch"),)
    hasty = replace(CONTROLLER, load=Hasty, permissions=permissions)
    manager = VirtualManager([hasty])
    await create(manager, definition)
    with pytest.raises(AssertionError, match=r"repeats PATCH .*/shop without end"):
        await manager.settle()
    await manager.stop()


async def test_a_sync_that_fails_ends_no_test(definition: Path) -> None:
    """It is retried later; the log says why it failed."""
    manager = VirtualManager([replace(CONTROLLER, load=Failing)])
    await create(manager, definition)
    await manager.settle()
    assert "shop has no certificate" in manager.log
    await manager.stop()


async def test_what_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="two controllers are called"):
        VirtualManager([CONTROLLER, CONTROLLER])
    file = tmp_path / "wrong.yaml"
    file.write_text("kind: Nothing")
    with pytest.raises(ClusterError, match=r"wrong\.yaml"):
        await VirtualManager([CONTROLLER]).create_manifests(file)


async def site(manager: VirtualManager, name: str) -> None:
    """Create another website."""
    site = Website(metadata=ObjectMeta(name=name, namespace="default"))
    await manager.client.create(WEBSITES, site)


async def deployed(manager: VirtualManager) -> list[str]:
    """Return the names of the deployments."""
    page = await manager.client.list_page(*WHERE)
    return [each.metadata.name for each in page.items]


async def test_lost_and_silent_watches_delay_the_controllers_only(
    manager: VirtualManager, definition: Path
) -> None:
    """A silent one makes stale caches, until the client watches again."""
    await create(manager, definition)
    await manager.settle()
    assert manager.faults.drop_watches(resource="websites") == 1
    await site(manager, "a")
    await manager.settle(2)
    assert await deployed(manager) == ["web-a", "web-shop"]
    assert manager.faults.expire_watches() > 1
    await site(manager, "b")
    await manager.settle(2)
    assert await deployed(manager) == ["web-a", "web-b", "web-shop"]
    assert manager.faults.silence_watches(resource="websites") == 1
    await site(manager, "c")
    await manager.settle(5)
    assert "web-c" not in await deployed(manager)
    manager.faults.restart(downtime=3)
    await manager.settle(30)
    assert "web-c" in await deployed(manager)


async def test_refused_and_slow_writes_are_those_of_the_controllers(
    manager: VirtualManager, definition: Path
) -> None:
    """The client of the test meets no fault; `clear` ends them."""
    await create(manager, definition)
    slow = manager.faults.latency(5, times=1, verbs="patch")
    fault = manager.faults.refuse(503, verbs="patch", resource="deployments")
    before = manager.clock.now()
    await manager.settle(10)
    assert fault.count > 1
    assert slow.count == 1
    assert (manager.clock.now() - before).total_seconds() >= 10
    assert await deployed(manager) == []
    manager.faults.clear()
    await manager.settle(60)
    assert await deployed(manager) == ["web-shop"]


async def test_a_start_without_an_api_server_returns(
    manager: VirtualManager, definition: Path
) -> None:
    """The controllers work once it is there."""
    await create(manager, definition)
    with manager.faults.outage():
        await manager.settle()
        assert await deployed(manager) == []
    await manager.settle(60)
    assert await deployed(manager) == ["web-shop"]


async def test_a_crash_ends_syncs_in_the_middle(
    manager: VirtualManager, definition: Path
) -> None:
    """No time passes, nothing is written any more, and all is done after a restart."""
    await create(manager, definition)
    manager.faults.latency(10, verbs="patch")
    await manager.start()
    await asyncio.sleep(1)
    before = manager.clock.now()
    await manager.crash()
    assert manager.clock.now() == before
    await asyncio.sleep(60)
    assert await deployed(manager) == []
    manager.faults.clear()
    await manager.settle()
    assert await deployed(manager) == ["web-shop"]


TESTS = """
    from dataclasses import replace

    import pytest

    from controller_manager.sdk import core_v1
    from tests.sdk.websites import CONTROLLER, WEBSITES, Website

    CONFINED = replace(CONTROLLER, permissions=())

    async def create(manager):
        body = {"metadata": {"namespace": "default", "name": "shop"}, "spec": {}}
        await manager.client.apply(WEBSITES, body)
        await manager.settle()

    async def test_passes(manager, looptime):
        await create(manager)

    async def test_fails(manager):
        await create(manager)
        assert manager.writes == []

    @pytest.mark.own_controllers(CONFINED)
    async def test_confined(manager):
        await create(manager)
"""


@pytest.mark.slow
def test_the_fixture_takes_controllers_and_manifests_and_shows_the_log(
    pytester: pytest.Pytester, definition: Path
) -> None:
    result = test_plugin.run(
        pytester,
        TESTS,
        "-o",
        "own_controllers=tests.sdk.websites:CONTROLLER",
        f"--devcluster-manifests={definition}",
        "--strict-markers",
    )
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert "Captured log of the controllers" in text
    assert '"Finished syncing"' in text
    assert "website-operator may not patch deployments: give its Descriptor" in text


@pytest.mark.slow
def test_a_fixture_without_controllers_says_how_to_name_them(
    pytester: pytest.Pytester,
) -> None:
    source = "async def test(manager): pass"
    result = test_plugin.run(pytester, source)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no controllers: name them in the ini file*"])
    result = test_plugin.run(pytester, source, "-o", "own_controllers=nowhere:C")
    result.stdout.fnmatch_lines(["*own_controllers nowhere:C: No module named*"])
