"""The output of the demo, on virtual time."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from controller_manager.devcluster.cli.steps import Demo, demo_config
from controller_manager.explain.answer import answer
from controller_manager.registry import registry
from tests.clusters import Cluster, make_config


async def play(cluster: Cluster) -> tuple[list[tuple[str, float]], str]:
    """Play the demo as the command does; return its steps and its output."""
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    ours = make_config(controllers=("*",))
    config = replace(
        demo_config(registry()),
        client=ours.client,
        generic=ours.generic,
        serving=ours.serving,
    )
    async with (
        cluster.nodes(start_delay=0.6, grace_scale=0.05),
        cluster.manager(config),
    ):
        steps = await Demo(cluster.transport, cluster.clock, console, answer).run()
    return steps, shown.getvalue()


def step(output: str, title: str) -> str:
    return output.partition(f"\n{title}\n")[2].partition("\n\n")[0]


def seen(lines: str, pattern: str) -> list[str]:
    """Return what a pattern found, without repetition of neighbours."""
    found: list[str] = []
    for each in re.findall(pattern, lines):
        if found[-1:] != [each]:
            found.append(each)
    return found


@pytest.mark.looptime
@pytest.mark.slow
async def test_all_workloads_are_shown_and_a_broken_rollout_explained(
    cluster: Cluster,
) -> None:
    """Within half a minute."""
    steps, output = await play(cluster)
    assert sum(seconds for _, seconds in steps) < 30
    check_workloads(output)
    kind = cluster.server.catalogue.find("", "v1", "persistentvolumes")
    assert kind is not None
    assert not list(cluster.server.storage.collection(kind.resource))
    title = "Update web again, to an image that cannot be pulled"
    assert 2.5 < dict(steps)[title] < 4
    check_broken_rollout(output, step(output, title))


def check_broken_rollout(output: str, broken: str) -> None:
    """Check that the broken image is seen before it is rolled back."""
    reason = r'ImagePullBackOff: Back-off pulling image "broken:1\.30"'
    failing = re.findall(rf"^ *([\d.]+)s  (web-\S+)  {reason}$", broken, re.MULTILINE)
    assert len({name for _, name in failing}) == len(failing) == 2
    last = broken.rstrip().splitlines()[-2]
    assert last.endswith("$ controller-manager explain deploy/web -n shop")
    _, _, rest = output.partition("$ controller-manager explain deploy/web -n shop\n")
    explained = rest.partition("\nRoll web back")[0]
    assert [
        each.strip() for each in re.findall(r"\[[A-Z]\w+\]|Remedy: .*", explained)
    ] == [
        "[RolloutWaits]",
        "[ImagePull]",
        "Remedy: correct the name of the image, push it, or give the pod",
    ]


def check_workloads(output: str) -> None:
    applied = step(output, "Apply 11 objects from devcluster/samples")
    assert seen(applied, r"db  +ready (\d)/3") == ["0", "1", "2", "3"]
    assert seen(applied, r"agent  +ready (\d/\d)")[-1] == "3/3"
    assert seen(applied, r"import  +succeeded 4/4  .*  (\w+)")[-1] == "Complete"
    updated = step(output, "Update db from its last pod on, and agent node by node")
    for name in ("db", "agent"):
        assert set(seen(updated, rf"{name}  +ready (\d)/3")) == {"2", "3"}
        assert seen(updated, rf"{name}  .* up-to-date ([1-3])") == list("3123")
    title = "Set the last run of report back by a day: it makes up for one run"
    report = step(output, title)
    assert seen(report, r"report-\d+ +(succeeded 1/1)") == ["succeeded 1/1"]
    runs = seen(report, r"report  .*  last run (\S+)")
    assert (len(runs), runs[-1]) == (2, "2025-12-31T03:00:00Z")
    title = "Autoscale worker from 2 to 6 pods, and load it with 3 cores"
    scaled = step(output, title)
    assert seen(scaled, r"worker  +ready (\d/\d)")[-1] == "6/6"
    loads = ["?/500m", "1500m/500m", "500m/500m"]
    assert seen(scaled, r"worker  +cpu (\S+) each") == loads
    title = "Leave 600m of the load: worker gets smaller again"
    assert seen(step(output, title), r"worker  +ready (\d/\d)")[-1] == "2/2"
    title = "Delete db and, as its policy wants, its claims (whenDeleted: Delete)"
    claims = step(output, title)
    assert set(re.findall(r"(data-db-\d) Bound", claims)) == {
        f"data-db-{number}" for number in range(3)
    }
