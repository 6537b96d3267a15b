"""Fixtures of the tests of the garbage collector."""

import pytest

from tests.clusters import Cluster
from tests.controllers.cluster.garbagecollector.collecting import User


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)
