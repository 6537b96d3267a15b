"""The output of the demo, on virtual time."""

import io
import re

import pytest
from rich.console import Console

from controller_manager.devcluster.demo import Demo
from tests.clusters import Cluster, make_config


@pytest.mark.looptime
async def test_the_broken_image_is_seen_before_it_is_rolled_back(
    cluster: Cluster,
) -> None:
    """Each new pod shows why it does not start, for two seconds."""
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    async with (
        cluster.nodes(start_delay=0.6, grace_scale=0.05),
        cluster.manager(make_config(controllers=("*",))),
    ):
        summary = await Demo(cluster.transport, cluster.clock, console).run()
    output = shown.getvalue()
    broken = output.partition("cannot be pulled\n")[2].partition("\nRoll web back\n")[0]
    reason = r'ImagePullBackOff: Back-off pulling image "broken:1\.30"'
    failing = re.findall(rf"^ *([\d.]+)s  (web-\S+)  {reason}$", broken, re.MULTILINE)
    assert len({name for _, name in failing}) == len(failing) == 2
    seconds = dict(summary.steps)
    assert 2.6 <= seconds["Update web again, to an image that cannot be pulled"] < 4
    last = broken.rstrip().splitlines()[-1]
    assert last.endswith('Back-off pulling image "broken:1.30"')
