"""A development cluster for each module, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import Kubectl, kubectl_in, running_cluster


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a development cluster with the controllers, for all tests of this module."""
    flags = ("--pod-start-delay=100ms", "--grace-scale=0")
    with running_cluster(tmp_path_factory.mktemp("e2e"), *flags) as path:
        yield path


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """Return a function that runs kubectl in a namespace of its own."""
    return kubectl_in(kubeconfig, request.node.name)
