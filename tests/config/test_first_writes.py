"""A manager in the place of upstream's may make all writes of its controllers.

The role is the one that every API server gives kubeadm's user, and the flags are those
of the static pod, with keys.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
import yaml

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.secrets import SECRETS, decoded
from controller_manager.api.core.v1 import NAMESPACES, SERVICE_ACCOUNTS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.storage.v1 import VOLUME_ATTRIBUTES_CLASSES
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.options.config import Config, RateLimit, ServingConfig
from controller_manager.registry import registry
from tests.clusters import ROOT_CA, Cluster, run_manager
from tests.config.accounts import account_of
from tests.config.manifests import arguments_of, config_of, static_pod
from tests.conformance.arguments import signing_files
from tests.controllers.certificates.authorities import condition, signing_request
from tests.controllers.user import settle
from tests.meddler import Observer

OBJECTS: Final = Path(__file__).with_name("first_writes.yaml")

PKI: Final = {
    "cluster-signing-cert-file": "ca.crt",
    "cluster-signing-key-file": "ca.key",
    "service-account-private-key-file": "sa.key",
}

ELSEWHERE: Final = {
    "device-taint-eviction-controller": "a driver taints a device that a pod uses",
    "expand-controller": "a volume of a plugin in the tree grows",
    "legacy-service-account-token-cleaner": "a token is not used for a year",
}
"""Accounts of controllers that write nothing here, and when they would."""


@dataclass
class ByAccount(Observer):
    """Notes the accounts that write, and the requests that are refused."""

    writers: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    def note(self, request: Request, status: int) -> None:
        who = account_of(request)
        if request.method != "GET" and status < HTTPStatus.BAD_REQUEST:
            self.writers.add(who)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            self.refused.append(f"{who}: {request.method} {request.path}")


def _config(directory: Path) -> Config:
    """Return what the static pod is told, with key files, and without limits."""
    (directory / "pki").mkdir()
    for flag, path in signing_files().items():
        shutil.copy(path, directory / "pki" / PKI[flag])
    arguments = [
        each.replace("/etc/kubernetes", str(directory))
        for each in arguments_of(static_pod())
    ]
    config = config_of(arguments)
    unlimited = replace(config.client, limit=RateLimit(qps=0))
    return replace(config, serving=ServingConfig(port=0), client=unlimited)


def _objects() -> Iterator[dict[str, object]]:
    yield from yaml.safe_load_all(OBJECTS.read_text())


@pytest.mark.looptime
async def test_every_controller_may_make_its_first_writes(tmp_path: Path) -> None:
    config = _config(tmp_path)
    cluster = Cluster(rbac=True)
    for name in ("kube-public", "kube-node-lease", "leaving"):
        cluster.add_namespace(name)
    cluster.server.tokens.add("manager", User(MANAGER))
    manager = ByAccount(InMemoryTransport(cluster.server, "manager"))
    controllers = ByAccount(InMemoryTransport(cluster.server))
    async with (
        cluster.nodes(count=2),
        run_manager(
            Connections(manager, anonymous=controllers, root_ca=ROOT_CA),
            cluster.clock,
            cluster.rng,
            config,
        ),
    ):
        for each in _objects():
            _create(cluster, each)
        _approve(cluster, signing_request())
        await settle(150)
        token = await cluster.client.get(SECRETS, "default", "robot-token")
        await cluster.client.delete(SERVICE_ACCOUNTS, "default", "robot")
        await cluster.client.delete(NAMESPACES, "", "leaving")
        await cluster.client.delete(CLAIMS, "default", "disk")
        await cluster.client.delete(PERSISTENT_VOLUMES, "", "disk")
        await cluster.client.delete(VOLUME_ATTRIBUTES_CLASSES, "", "quick")
        await settle(60)
        left = (await cluster.client.list_page(SECRETS)).items
    assert manager.refused + controllers.refused == []
    assert decoded(token, "token")
    assert [each.metadata.name for each in left] == []
    gates = config.features
    accounts = {
        each.account
        for each in registry().select(config.generic.controllers)
        if each.account and all(map(gates.is_enabled, each.requires_gates))
    }
    assert accounts - controllers.writers == set(ELSEWHERE)


def _approve(cluster: Cluster, request: dict[str, object]) -> None:
    """Store a request for a certificate as one that a person has approved."""
    _create(cluster, request)
    kind = cluster.server.catalogue.of("certificates.k8s.io/v1", str(request["kind"]))
    assert kind is not None
    approved = {**request, "status": {"conditions": [condition("Approved")]}}
    cluster.server.objects.update(kind, "", "a", approved, "approval")


def _create(cluster: Cluster, obj: dict[str, object]) -> None:
    kind = cluster.server.catalogue.of(str(obj["apiVersion"]), str(obj["kind"]))
    assert kind is not None
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    cluster.server.objects.create(kind, metadata.get("namespace", ""), obj)
