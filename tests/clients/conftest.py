"""The cluster that the clients use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import running_cluster


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a development cluster without controllers; yield its kubeconfig."""
    flags = ("--nodes=2", "--without-controllers", "--grace-scale=0")
    with running_cluster(tmp_path_factory.mktemp("clients"), *flags) as path:
        yield path
