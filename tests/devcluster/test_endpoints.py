"""The endpoints of the controllers with ``devcluster --secure-port``."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller_manager.devcluster.cluster import embedded_config
from controller_manager.registry import registry
from tests.http.test_over_http import get, start, token_of, wait_for
from tests.ports import free_port

pytestmark = pytest.mark.slow


def files_of_keys(body: dict[str, Any]) -> dict[str, str]:
    """Return the flags that name the files of the cluster's keys."""
    document = body["kubecontrollermanager.config.k8s.io"]
    signing, tokens = document["CSRSigningController"], document["SAController"]
    return {
        "cluster-signing-cert-file": signing["ClusterSigningCertFile"],
        "cluster-signing-key-file": signing["ClusterSigningKeyFile"],
        "service-account-private-key-file": tokens["ServiceAccountKeyFile"],
    }


def test_configz_and_flagz_show_the_effective_configuration(tmp_path: Path) -> None:
    """Complete: the flags that the cluster sets, and every default."""
    port, file = free_port(), tmp_path / "kubeconfig"
    process = start(
        "devcluster", "--port=0", f"--secure-port={port}", "--v=1",
        f"--write-kubeconfig={file}", log=tmp_path / "log",
    )  # fmt: skip
    try:
        wait_for(file.exists, process)
        bearer = token_of(file)
        status, body = get(port, "/configz", bearer)
        flagz = get(port, "/flagz", bearer)
    finally:
        process.terminate()
        assert process.wait(15) == 0
    keys = files_of_keys(json.loads(body))
    assert [Path(each).name for each in keys.values()] == ["ca.crt", "ca.key", "sa.key"]
    assert [each for each in keys.values() if Path(each).exists()] == []
    config = embedded_config(registry(), port, 1, more=keys)
    assert (status, config.warnings) == (200, ())
    assert json.loads(body) == {
        "kubecontrollermanager.config.k8s.io": dict(config.document)
    }
    generic = config.document["Generic"]
    assert generic["LeaderElection"]["leaderElect"] is False
    assert generic["ClientConnection"]["qps"] == -1
    assert generic["Controllers"] == ["*"]
    assert flagz[0] == 200
    shown = dict(line.split("=", 1) for line in flagz[1].splitlines() if "=" in line)
    assert {
        name: shown[name]
        for name in ("secure-port", "bind-address", "use-service-account-credentials")
    } == {
        "secure-port": str(port),
        "bind-address": "127.0.0.1",
        "use-service-account-credentials": "true",
    }
