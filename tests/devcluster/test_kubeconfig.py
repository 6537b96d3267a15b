"""The kubeconfig that a development cluster writes."""

from pathlib import Path

import pytest

from controller_manager.clock import SystemClock
from controller_manager.devcluster.cluster import (
    ClusterOptions,
    DevCluster,
    KubeconfigError,
    check_kubeconfig,
)


def test_a_kubeconfig_of_a_user_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    check_kubeconfig(path)
    path.touch()
    DevCluster(ClusterOptions(), SystemClock()).write_kubeconfig(path)
    check_kubeconfig(path)
    path.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(KubeconfigError) as caught:
        check_kubeconfig(path)
    assert str(caught.value) == (
        f"--write-kubeconfig {path}: the file exists and is not a development "
        "cluster's; name another, or remove it"
    )
    nowhere = tmp_path / "absent" / "config"
    with pytest.raises(KubeconfigError, match="there is no directory"):
        check_kubeconfig(nowhere)
