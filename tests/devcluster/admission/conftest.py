"""A cluster with all admission plugins of upstream's default."""

import pytest_asyncio

from controller_manager.devcluster.admission.plugins import ON_BY_DEFAULT
from tests.clusters import Cluster


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    """Return an API server in memory, whose namespaces have a default account."""
    cluster = Cluster(admission_plugins=ON_BY_DEFAULT)
    cluster.add("ServiceAccount", "default")
    return cluster
