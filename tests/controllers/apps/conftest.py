"""Fixtures of the tests of workload controllers."""

import pytest

from tests.clusters import Cluster
from tests.controllers.user import User


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)
