"""The pytest plugin: a cluster for the tests of controllers.

pytest loads it wherever the package is installed. It imports nothing of a cluster
before a test asks for one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .cluster_error import ClusterError
from .default_kubeconfig import default_kubeconfig
from .importing import plain_imports
from .options import OPTIONS, chosen_values

if TYPE_CHECKING:
    from .development_cluster import DevelopmentCluster
    from .faults import Faults
    from .settings import ClusterSettings


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the cluster, for the command line and the ini file."""
    group = parser.getgroup("devcluster", "development cluster (controller-manager)")
    for option in OPTIONS:
        text = f"{option.help} (ini: {option.name}; default: {option.default})"
        group.addoption(f"--{option.name}", metavar=option.metavar, help=text)
        parser.addini(option.name, option.help, default="")


@pytest.fixture(scope="session")
def devcluster_settings(pytestconfig: pytest.Config) -> "ClusterSettings":
    """Return the settings of the cluster, from the options; override it for others."""
    with plain_imports(pytestconfig):
        from .settings import ClusterSettings  # noqa: PLC0415
    try:
        return ClusterSettings(**chosen_values(pytestconfig))
    except ClusterError as error:
        pytest.fail(f"devcluster: {error}", pytrace=False)


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, devcluster_settings: "ClusterSettings"
) -> "Iterator[DevelopmentCluster]":
    """Run a cluster that all tests of the session share; KUBECONFIG names it.

    Clients without an explicit cluster use this one, and no other cluster by mistake.
    """
    with plain_imports(pytestconfig):
        try:
            from .development_cluster import (  # noqa: PLC0415
                DevelopmentCluster,
            )
        except ImportError as error:
            from controller_manager.devcluster.extra import missing_extra  # noqa: PLC0415

            pytest.fail(f"devcluster: {missing_extra(error)}", pytrace=False)
        made = DevelopmentCluster(devcluster_settings)
        try:
            made.start()
        except ClusterError as error:
            pytest.fail(f"devcluster: {error}", pytrace=False)
    try:
        with default_kubeconfig(made.kubeconfig):
            yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def kubeconfig(cluster: "DevelopmentCluster") -> Path:
    """Return the kubeconfig of the cluster, with an administrator's credentials."""
    return cluster.kubeconfig


@pytest.fixture
def namespace(cluster: "DevelopmentCluster") -> Iterator[str]:
    """Return a namespace for one test, which is removed with all its objects."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def fresh_cluster(cluster: "DevelopmentCluster") -> "Iterator[DevelopmentCluster]":
    """Return the cluster; after the test, all its objects are as they were before."""
    before = cluster.snapshot()
    yield cluster
    cluster.restore(before)


@pytest.fixture
def faults(cluster: "DevelopmentCluster") -> "Iterator[Faults]":
    """Return the faults of the cluster; they are removed at the end of the test."""
    made = cluster.faults
    yield made
    made.clear()
