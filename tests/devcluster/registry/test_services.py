"""Services get families, addresses and node ports, and give them back."""

import pytest

from controller_manager.devcluster.registry.networking import RangeError
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize("ranges", ["", "10.0.0.0", "10.0.0.0/16,10.1.0.0/16"])
async def test_invalid_ranges_are_refused(ranges: str) -> None:
    with pytest.raises(RangeError, match=f"^--service-cluster-ip-range {ranges}: "):
        Cluster(service_cluster_ip_range=ranges)
