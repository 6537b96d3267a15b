"""The fixtures of the tests of the job controller."""

import pytest

from tests.clusters import Cluster
from tests.controllers.batch.job.builders import JobUser


@pytest.fixture
def user(cluster: Cluster) -> JobUser:
    return JobUser(cluster)
