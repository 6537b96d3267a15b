"""Clusters and managers for tests of the controllers of certificates."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller_manager.api.certificates.v1 import (
    SIGNING_REQUESTS,
    CertificateSigningRequest,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.certificates.signing.options import SigningOptions
from controller_manager.devcluster.apiserver.security import User
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.certificates.authorities import condition, write_authority
from tests.controllers.hands import Hands

SIGNING = "certificatesigningrequest-signing-controller"
APPROVING = "certificatesigningrequest-approving-controller"
CLEANER = "certificatesigningrequest-cleaner-controller"

NODE = User("system:node:n1", groups=("system:nodes", "system:authenticated"))
NEWCOMER = User(
    "system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated")
)


def config_for(
    directory: Path, controllers: Sequence[str] = (SIGNING,), **options: Any
) -> Config:
    certificate, key = write_authority(directory)
    own = SigningOptions(cert_file=certificate, key_file=key, **options)
    config = make_config(
        controllers=tuple(controllers), use_service_account_credentials=True
    )
    return replace(config, controllers={SigningOptions: own})


def make(cluster: Hands, request: JSON, user: User = NODE) -> None:
    kind = cluster.server.catalogue.of(request["apiVersion"], request["kind"])
    assert kind is not None
    cluster.server.objects.create(kind, "", request, user=user)


async def decide(cluster: Hands, name: str, kind: str = "Approved") -> None:
    patch = {"status": {"conditions": [condition(kind)]}}
    await cluster.client.patch(
        SIGNING_REQUESTS, "", name, patch, PatchType.MERGE, "approval"
    )


async def read(cluster: Hands, name: str = "a") -> CertificateSigningRequest:
    return await cluster.client.get(SIGNING_REQUESTS, "", name)


def allow(cluster: Hands, subresource: str, group: str) -> None:
    """Allow a group to have its requests approved, as kubeadm does."""
    api = "rbac.authorization.k8s.io"
    rule = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": [f"certificatesigningrequests/{subresource}"],
        "verbs": ["create"],
    }
    reference = {"apiGroup": api, "kind": "ClusterRole", "name": subresource}
    subject = {"apiGroup": api, "kind": "Group", "name": group}
    cluster.add("ClusterRole", subresource, f"{api}/v1", rules=[rule])
    cluster.add(
        "ClusterRoleBinding",
        subresource,
        f"{api}/v1",
        roleRef=reference,
        subjects=[subject],
    )
