"""Clusters that tests examine, healthy ones at first."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.api.rbac.v1 import CLUSTER_ROLES
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Transport
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.doctor.checks import examine
from controller_manager.doctor.examination import Examination, OwnPod
from controller_manager.doctor.finding import Level, Result, as_text
from controller_manager.options.config import Config
from controller_manager.options.parsing import parse
from controller_manager.registry import registry
from tests.clusters import ROOT_CA, Cluster, RecordingTransport
from tests.controllers.certificates.authorities import pem_of, write_authority

_PATIENCE = 60.0
BINDINGS: Resource[PartialObject] = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    PartialObject,
    namespaced=False,
)
ROLE_BINDINGS: Resource[PartialObject] = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", PartialObject
)


class Patient:
    """A cluster with roles, and a manager's flags with which all is well."""

    def __init__(self, directory: Path, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster(rbac=True)
        self.cluster.server.tokens.add("manager", User(MANAGER))
        self.way = RecordingTransport(InMemoryTransport(self.cluster.server, "manager"))
        self.transport: Transport = self.way
        self.certificate, self.key = write_authority(directory)
        tokens = directory / "sa.key"
        tokens.write_bytes(pem_of(ec.generate_private_key(ec.SECP256R1())))
        self.flags = {
            "use-service-account-credentials": "true",
            "cluster-signing-cert-file": self.certificate,
            "cluster-signing-key-file": self.key,
            "service-account-private-key-file": str(tokens),
            "allocate-node-cidrs": "true",
            "cluster-cidr": "10.244.0.0/16",
        }
        self.pod: OwnPod | None = None
        self.build = registry()
        self.reviewer: Transport | None = self.way

    def _config(self, **flags: str) -> Config:
        given = self.flags | {
            name.replace("_", "-"): value for name, value in flags.items()
        }
        return parse({name: (value,) for name, value in given.items()}, self.build)

    async def examined(self, **flags: str) -> list[Result]:
        config = self._config(**flags)
        connections = Connections(
            self.transport,
            authentication=self.reviewer,
            authorization=self.reviewer,
            root_ca=ROOT_CA,
        )
        clock = self.cluster.clock
        examined = Examination(self.build, config, connections, clock, self.pod)
        return await examine(examined, _PATIENCE)

    async def faults(self, **flags: str) -> list[str]:
        return _not_ok(await self.examined(**flags))

    async def line(self, check: str, **flags: str) -> str:
        results = await self.examined(**flags)
        (line,) = as_text(
            [each for each in results if each.check == check]
        ).splitlines()
        return " ".join(line.split())

    async def forbid(self, role: str, verb: str, resource: str) -> None:
        found = await self.cluster.client.get_json(CLUSTER_ROLES, "", role)
        found["rules"] = [
            each for rule in found["rules"] for each in _without(rule, verb, resource)
        ]
        await self.cluster.client.update_json(CLUSTER_ROLES, found)

    async def take_roles(self, roles: Mapping[str, Sequence[Sequence[str]]]) -> None:
        """Give the accounts of controllers these rules, and no others.

        A rule has a group, resources and verbs, each with commas between them.
        """
        client = self.cluster.client
        for account, rules in roles.items():
            role = await client.get_json(
                CLUSTER_ROLES, "", f"system:controller:{account}"
            )
            role["rules"] = [
                {
                    "apiGroups": ["", "events.k8s.io"]
                    if "events" in group
                    else [group],
                    "resources": resources.split(", "),
                    "verbs": verbs.split(","),
                }
                for group, resources, verbs in rules
            ]
            await client.update_json(CLUSTER_ROLES, role)


def _not_ok(results: list[Result]) -> list[str]:
    lines = as_text(results).splitlines()
    return [" ".join(line.split()) for line in lines if not line.startswith(Level.OK)]


def _without(rule: JSON, verb: str, resource: str) -> Iterator[JSON]:
    """Yield the rule without a verb on a resource."""
    resources = rule.get("resources", ())
    if resource not in resources or verb not in rule["verbs"]:
        yield rule
        return
    for each in resources:
        taken = {verb} if each == resource else set()
        if verbs := [one for one in rule["verbs"] if one not in taken]:
            yield {**rule, "resources": [each], "verbs": verbs}


def lease(holder: str, renewed: str, name: str = "kube-controller-manager") -> JSON:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": renewed,
        },
    }


def static_pod(*command: str) -> Mapping[str, Any]:
    return {
        "metadata": {
            "name": "kube-controller-manager-a",
            "namespace": "kube-system",
            "labels": {"component": "kube-controller-manager"},
        },
        "spec": {
            "nodeName": "a",
            "containers": [
                {
                    "name": "kube-controller-manager",
                    "image": "registry.k8s.io/kube-controller-manager:v1.36.2",
                    "command": ["kube-controller-manager", *command],
                }
            ],
        },
    }
