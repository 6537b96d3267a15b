"""Situations in clusters that concern only attached volumes."""

import asyncio
from typing import Final

from controller_manager.controllers.storage.attachdetach.volumes import csi_name
from tests.controllers.storage.attachdetach.workload import (
    DRIVER,
    HOME,
    NODES,
    VolumeUsers,
)
from tests.simulation.environment import Environment, Scenario
from tests.simulation.world import NAMESPACE

_VOLUME: Final = "disk-one"
_FIRST, _SECOND = NODES
_LAGGING: Final = ("nodes", "persistentvolumeclaims", "persistentvolumes", "pods")


def _prepare(environment: Environment) -> VolumeUsers:
    users = VolumeUsers(environment.world)
    users.create_objects(NAMESPACE)
    return users


def _delete(environment: Environment, name: str) -> None:
    found = environment.world.find("pods", HOME, name)
    assert found is not None
    environment.world.delete("pods", found, grace=0)


def _attachments(environment: Environment) -> list[tuple[str, bool]]:
    """Return node and state of each attachment of the volume."""
    return [
        (each["spec"]["nodeName"], bool(each["status"].get("attached")))
        for each in environment.world.stored("volumeattachments")
        if each["spec"]["source"].get("persistentVolumeName") == _VOLUME
    ]


def _lists(environment: Environment, node: str) -> bool:
    found = environment.world.find("nodes", "", node)
    listed = found["status"].get("volumesAttached") if found is not None else None
    return csi_name(DRIVER, _VOLUME) in [each["name"] for each in listed or ()]


async def use_of_a_volume_is_not_seen(environment: Environment) -> None:
    """No issue: the cache of nodes lags while a node begins to use a volume.

    The list of the node is written only on the status that was read. As upstream, the
    node is read from the API server before a volume is detached.
    """
    users = _prepare(environment)
    await asyncio.sleep(5)
    users.reports_use = False
    users.run_pod("user", _FIRST, _VOLUME)
    await environment.until(lambda: _lists(environment, _FIRST), within=60)
    await asyncio.sleep(5)
    environment.manager.connection.lagging["nodes"] = environment.now + 30
    users.reports_use = True
    await asyncio.sleep(5)
    users.reports_use = False
    _delete(environment, "user")
    await asyncio.sleep(40)
    assert _attachments(environment) == [(_FIRST, True)]
    users.reports_use = True
    await environment.until(lambda: not _attachments(environment), within=60)


async def pod_goes_that_never_used_its_volume(environment: Environment) -> None:
    """No issue: only the end of the pod causes the detach of its volume."""
    users = _prepare(environment)
    await asyncio.sleep(5)
    users.reports_use = False
    users.run_pod("user", _FIRST, _VOLUME)
    await environment.until(lambda: _lists(environment, _FIRST), within=60)
    await asyncio.sleep(5)
    _delete(environment, "user")
    await environment.until(lambda: not _attachments(environment), within=60)


async def two_nodes_want_one_volume(environment: Environment) -> None:
    """No issue: two pods need a volume at once, and no cache shows an attachment."""
    users = _prepare(environment)
    await asyncio.sleep(5)
    lag = environment.manager.connection.lagging
    lag["volumeattachments"] = environment.now + 30
    users.run_pod("first", _FIRST, _VOLUME)
    users.run_pod("second", _SECOND, _VOLUME)
    await asyncio.sleep(60)
    assert len(_attachments(environment)) == 1


async def attachment_goes_unseen(environment: Environment) -> None:
    """No issue: an attachment is deleted before its node lists the volume.

    The cache of attachments lags, so it still shows the attachment as it was.
    """
    users = _prepare(environment)
    await asyncio.sleep(5)
    users.run_pod("user", _FIRST, _VOLUME)
    await environment.until(
        lambda: _attachments(environment) == [(_FIRST, True)], within=60, every=0.01
    )
    await asyncio.sleep(0.05)
    assert not _lists(environment, _FIRST)
    lag = environment.manager.connection.lagging
    lag["volumeattachments"] = environment.now + 30
    users.delete_attachment(_VOLUME)
    await asyncio.sleep(20)
    assert not _lists(environment, _FIRST)
    await environment.until(lambda: _lists(environment, _FIRST), within=120)


async def attached_volume_is_not_known(environment: Environment) -> None:
    """No issue: the caches lack a volume that another leader has just attached.

    Those of nodes, pods and volumes lag, that of attachments does not: by the caches no
    pod needs the attachment, and the name of its volume is unknown. It stays.
    """
    await asyncio.sleep(10)
    lag = environment.manager.connection.lagging
    for plural in _LAGGING:
        lag[plural] = environment.now + 60
    users = _prepare(environment)
    users.run_pod("user", _FIRST, _VOLUME)
    users.attach(_VOLUME, _FIRST)
    await asyncio.sleep(90)
    assert _attachments(environment) == [(_FIRST, True)]
    assert _lists(environment, _FIRST)
    _delete(environment, "user")
    await environment.until(lambda: not _attachments(environment), within=60)


async def volume_moves(environment: Environment) -> None:
    """No issue: a volume is attached to another node when the first has released it."""
    users = _prepare(environment)
    await asyncio.sleep(5)
    users.run_pod("first", _FIRST, _VOLUME)
    await environment.until(lambda: _lists(environment, _FIRST), within=60)
    users.run_pod("second", _SECOND, _VOLUME)
    await asyncio.sleep(30)
    assert _attachments(environment) == [(_FIRST, True)]
    _delete(environment, "first")
    await environment.until(lambda: _lists(environment, _SECOND), within=120)
    assert _attachments(environment) == [(_SECOND, True)]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    use_of_a_volume_is_not_seen,
    two_nodes_want_one_volume,
    volume_moves,
    attachment_goes_unseen,
    attached_volume_is_not_known,
    pod_goes_that_never_used_its_volume,
)
