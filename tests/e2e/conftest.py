"""A development cluster for each module, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.clusters import Kubectl, kubectl_in, running_cluster

_DEFAULT: Final = ("--pod-start-delay=100ms", "--grace-scale=0")


@pytest.fixture(scope="module")
def kubeconfig(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """Run a development cluster for all tests of a module, with the module's ``FLAGS``.

    By default it has the controllers.
    """
    flags = getattr(request.module, "FLAGS", _DEFAULT)
    with running_cluster(tmp_path_factory.mktemp("e2e"), *flags) as path:
        yield path


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """Return a function that runs kubectl in a namespace of its own."""
    return kubectl_in(kubeconfig, request.node.name)
