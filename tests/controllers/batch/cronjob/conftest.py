"""A cluster with a user of cron jobs."""

import pytest

from tests.clusters import Cluster
from tests.controllers.batch.cronjob.builders import Cron


@pytest.fixture
def cron(cluster: Cluster) -> Cron:
    return Cron(cluster)
