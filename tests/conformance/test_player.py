"""What steps refuse. The recordings show that they do what those of their tool do."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster, RecordingTransport
from tests.conformance.managers import SwitchedManager
from tests.conformance.player import Player
from tests.conformance.whole import WholeForm

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def no_manager() -> AsyncGenerator[RecordingTransport, None]:
    yield RecordingTransport(Cluster().transport)


POD = {
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
}


async def play(cluster: Cluster, *steps: JSON) -> None:
    async with SwitchedManager(no_manager) as playing:
        player = Player(cluster.transport, "n", cluster.clock, WholeForm(), playing)
        await player.play(list(steps))


async def test_an_object_that_was_made_again_is_gone(cluster: Cluster) -> None:
    """Though there is one of its name whenever the player looks."""
    gone = {"kind": "ConfigMap", "name": "a", "until": {"code": 404}}
    made = {"kind": "ConfigMap", "metadata": {"name": "a"}}
    before = cluster.clock.monotonic()
    await play(
        cluster,
        {"create": made},
        {"delete": {"kind": "ConfigMap", "name": "a"}},
        {"create": made},
        {"wait": gone},
    )
    assert cluster.clock.monotonic() == before


@pytest.mark.parametrize(
    "step",
    [
        {"pods": {"n": 2, "timeout": 3}},
        {"wait": {"kind": "Pod", "name": "a", "until": {"a.b": 1}, "timeout": 3}},
    ],
)
async def test_what_never_comes_is_not_waited_for_without_end(
    cluster: Cluster, step: JSON
) -> None:
    before = cluster.clock.monotonic()
    with pytest.raises(AssertionError):
        await play(cluster, {"create": POD}, step)
    assert 3 <= cluster.clock.monotonic() - before < 4


async def test_a_step_about_an_object_that_there_is_not_fails() -> None:
    with pytest.raises(AssertionError, match=r"^there is no Pod api-\*$"):
        await play(Cluster(), {"delete": {"kind": "Pod", "name": "api-*"}})


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ({"copy": {}}, "does not know the step copy"),
        ({"poddelete": {"in": "node"}}, "does not know in of the step poddelete"),
    ],
)
async def test_a_step_that_the_player_does_not_know_is_named(
    cluster: Cluster, step: JSON, complaint: str
) -> None:
    with pytest.raises(ValueError, match=f"^the player {complaint}$"):
        await play(cluster, step)
