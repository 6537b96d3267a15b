"""A real Prometheus scrapes a real daemon, and answers every query of the project."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.serving.certificates import self_signed
from tests.config import queries
from tests.e2e.clusters import KUBECTL, kubectl_in, running_cluster
from tests.ports import free_port
from tests.robustness.daemon import run_daemon
from tests.robustness.situation import on_uvloop, until

PROMETHEUS: Final = shutil.which("prometheus")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMETHEUS is None or KUBECTL is None, reason="no prometheus, or no kubectl"
    ),
]

ABSENT: Final = {"stuck_rollouts", "unexpected_errors_total"}
"""Metrics that have no series while all is well."""

SERVER_NAME: Final = "kube-controller-manager.kube-system.svc"

WORK: Final = """
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, max: {cpu: 1m}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: refused}
spec:
  selector: {matchLabels: {app: refused}}
  template:
    metadata: {labels: {app: refused}}
    spec: {containers: [{name: web, image: web, resources: {limits: {cpu: 1}}}]}
"""
"""A deployment that rolls out, and a replica set whose pods admission refuses."""


class Prometheus:
    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer; fails if Prometheus refuses the query.

        Raises OSError if it does not answer yet.
        """
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        with closing(connection):
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answer = connection.getresponse()
            body = answer.read()
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise ConnectionError(body)
        assert answer.status == HTTPStatus.OK, (query, body)
        return json.loads(body)["data"]

    def query(self, query: str) -> list[JSON]:
        found: list[JSON] = self.get("query", query=query)["result"]
        return found

    def value(self, query: str) -> float:
        """Return the only value of a query; 0 for none, or if none can be asked yet."""
        try:
            found = self.query(query)
        except OSError:
            return 0.0
        return float(found[0]["value"][1]) if found else 0.0


def serving_flags(directory: Path) -> list[str]:
    """Make the certificate of the guide; return the flags for it."""
    pair = self_signed("kube-controller-manager", [SERVER_NAME])
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)
    certificate, key = directory / "tls.crt", directory / "tls.key"
    return [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]


@contextmanager
def prometheus(directory: Path, target: int, token: str) -> Iterator[Prometheus]:
    """Run Prometheus with the files of the project, which scrapes a port each second.

    The address takes the place of the discovery.
    """
    config = yaml.safe_load((queries.PLAIN / "scrape-configs.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job["tls_config"]["server_name"] == SERVER_NAME
    job["tls_config"]["ca_file"] = str(directory / "tls.crt")
    (directory / "token").write_text(token)
    job["authorization"]["credentials_file"] = str(directory / "token")
    del job["kubernetes_sd_configs"], job["relabel_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{target}"]}]
    job["scrape_interval"] = "1s"
    config["global"] = {"evaluation_interval": "1s"}
    config["rule_files"] = [str(queries.PLAIN / "*rules.yaml")]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    assert PROMETHEUS is not None
    port = free_port()
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=log,
        )
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(20)


@on_uvloop
async def test_every_query_of_the_project_has_an_answer(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--without-controllers", "--nodes=1") as path:
        kubeconfig = yaml.safe_load(path.read_text())
        kubeconfig["current-context"] = MANAGER
        directory = tmp_path / "daemon"
        directory.mkdir()
        flags = serving_flags(tmp_path)
        async with run_daemon(kubeconfig, directory, *flags) as daemon:
            kubectl_in(path, "work")("apply", "-f", "-", stdin=WORK)
            token = kubeconfig["users"][0]["user"]["token"]
            with prometheus(tmp_path, daemon.port, token) as found:
                await until(lambda: has_enough(found), 60, "series of all work")
                check(found)


def has_enough(found: Prometheus) -> bool:
    """Tell whether all the work was seen, in several scrapes."""
    rollouts = "count_over_time(deployment_rollout_duration_seconds_sum[1m])"
    syncs = "controller_sync_duration_seconds_count"
    return (
        found.value(rollouts) > 3
        and found.value(f'sum({syncs}{{outcome="refused"}})') > 0
    )


def check(found: Prometheus) -> None:
    """Ask each query of the dashboard, the alerts and the runbooks.

    The trial is not scraped, and the target has no pod.
    """
    for title, query in queries.of_panels():
        is_absent = queries.metrics(query) <= ABSENT
        assert bool(found.query(query)) is not is_absent, (title, query)
    for title, query in (*queries.of_alerts(), *queries.of_runbooks()):
        found.query(query)
        for each in queries.selectors(query):
            is_absent = queries.metrics(each) <= ABSENT or any(
                label in each for label in ('job="controller-manager"', 'pod!=""')
            )
            assert bool(found.query(each)) is not is_absent, (title, each)
    rules = [each for group in found.get("rules")["groups"] for each in group["rules"]]
    assert len(rules) == len(list(queries.of_alerts()))
    assert [each for each in rules if each["health"] != "ok"] == []
    firing = {each["name"] for each in rules if each["state"] != "inactive"}
    assert firing == {"ControllerManagerTrialDown"}
    job = 'controller_sync_duration_seconds_count{job="kube-controller-manager"}'
    controllers = found.get("label/controller/values", **{"match[]": job})
    assert "deployment-controller" in controllers
    ends = found.query("certificate_expiration_timestamp_seconds")
    assert {each["metric"]["use"] for each in ends} == {"client", "serving"}
