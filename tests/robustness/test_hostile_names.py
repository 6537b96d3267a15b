"""Owner references whose names look like paths."""

from pathlib import Path

import pytest

from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import manager_of
from tests.robustness.objects import CONFIG_MAPS, owned
from tests.robustness.situation import on_uvloop, seconds_until

pytestmark = pytest.mark.slow

HOSTILE = (
    "kube-system/services/https:admin-ui:443/proxy/api/restart",
    "..",
    ".",
    "../../../../healthz",
    "a%2fb",
    "a/b",
)
KINDS = ("Namespace", "ConfigMap")
"""One cluster-scoped kind and one namespaced kind."""

PATIENCE = 10.0


async def create_dependents(cluster: FaultyCluster) -> None:
    """Create a dependent of every owner with a hostile name."""
    for kind in KINDS:
        for number, name in enumerate(HOSTILE):
            planted = owned(f"hostile-{kind.lower()}-{number}", kind, name)
            await cluster.create(CONFIG_MAPS, planted)


def is_hostile(path: str) -> bool:
    """Tell whether a requested path contains a part of a hostile name.

    A name is one segment of a path. So no segment is ``.`` or ``..``, none has an
    escaped character, and none is the part of a name after a slash. Names begin
    with the fifth segment.
    """
    parts = {".", "..", "services", "proxy", "a", "b"}
    return "%" in path or not parts.isdisjoint(path.split("/")[4:])


def hostile_paths(cluster: FaultyCluster) -> list[str]:
    return sorted({each.path for each in cluster.requests if is_hostile(each.path)})


async def seconds_of_garbage(cluster: FaultyCluster, name: str, owner: str) -> float:
    """Return how long an object with a missing owner waits for its deletion."""
    await cluster.create(CONFIG_MAPS, owned(name, owner, "vanished"))
    return await seconds_until(
        lambda: not cluster.has("configmaps", "default", name), PATIENCE
    )


def test_a_name_in_an_owner_reference_leads_to_no_other_path(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    """Objects that come after such a name are still collected."""

    async def situation() -> None:
        async with (
            faulty_cluster() as cluster,
            manager_of(cluster, tmp_path) as manager,
        ):
            await create_dependents(cluster)
            await manager.until_it_leads()
            waits = [
                await seconds_of_garbage(cluster, f"garbage-{turn}", "ConfigMap")
                for turn in range(5)
            ]
            # The collector also reads a namespace that does not exist.
            waits.append(await seconds_of_garbage(cluster, "last", "Namespace"))
            figures["strange paths"] = paths = hostile_paths(cluster)
            figures["slowest collection"] = max(waits)
            assert paths == []
            assert max(waits) < PATIENCE
            assert manager.is_running

    on_uvloop(situation)
