"""Each fault of a cluster that is brought about is one line; a healthy one has none."""

import asyncio
import json
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.doctor.examination import OwnPod
from controller_manager.doctor.finding import as_json, has_errors
from controller_manager.registry import registry
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry
from tests.controllers.certificates.authorities import new_key, pem_of, write_authority
from tests.doctor.patients import BINDINGS, ROLE_BINDINGS, Patient, lease, static_pod
from tests.odd_discovery import NULL_VERBS, UNREADABLE, WithGroup

DATA = Path(__file__).parents[1] / "data"
GRANULAR = "DRAResourceClaimGranularStatusAuthorization"
NAMES = {
    "UPSTREAM": "host_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d",
    "OWN": "host_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d",
}


@pytest.fixture
async def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


async def test_on_a_healthy_cluster_all_checks_are_ok(patient: Patient) -> None:
    """It sends reviews, which are not stored, and no other write."""
    results = await patient.examined()
    assert await patient.faults() == []
    assert not has_errors(results)
    line = await patient.line("rights: leases")
    assert line == "ok rights: leases all rights are there"
    assert [each.check for each in results] == [
        *("flags", "keys", "server", "version", "controllers", "resources"),
        *("discovery", "rights: caches", "rights: tokens"),
        *("rights: serviceaccount-token-controller", "rights: leases"),
        *("rights: events", "accounts", "endpoints", "lease", "other managers"),
        "own pod",
    ]
    kinds = {each.path.rpartition("/")[2] for each in patient.way.writes}
    assert kinds == {"selfsubjectaccessreviews", "subjectaccessreviews"}


async def test_the_report_as_json_has_the_same_findings(patient: Patient) -> None:
    patient.flags.pop("service-account-private-key-file")
    document = json.loads(as_json(await patient.examined()))
    assert document["ok"] is True
    assert [each for each in document["findings"] if each["level"] != "ok"] == [
        {
            "check": "controllers",
            "level": "warning",
            "message": "serviceaccount-token-controller would not run",
            "mend": "give --service-account-private-key-file",
        }
    ]


FAULTS = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text())
ROLES = {"MANAGER": MANAGER, "JOBS": "system:controller:job-controller"}


async def prepare(patient: Patient, fault: JSON) -> None:
    """Bring a fault about."""
    cluster = patient.cluster
    if "forbid" in fault:
        role, verbs, resource = fault["forbid"]
        for verb in verbs:
            await patient.forbid(ROLES.get(role, role), verb, resource)
    if "unbind" in fault:
        namespace, binding = fault["unbind"]
        kind = ROLE_BINDINGS if namespace else BINDINGS
        await cluster.client.delete(kind, namespace, binding)
    if "unserved" in fault:
        group, plural = fault["unserved"]
        unserved = cluster.server.catalogue.find(group, "v1", plural)
        assert unserved is not None
        cluster.server.catalogue.remove(unserved)
    if "holder" in fault:
        now = f"{cluster.clock.now():%Y-%m-%dT%H:%M:%S}.000000Z"
        renewed = "2020-01-01T00:00:00.000000Z" if "expired" in fault else now
        body = json.dumps(lease(NAMES[fault["holder"]], renewed)).encode()
        await cluster.client.create_json(LEASES, "kube-system", body)
    for given in fault.get("pods", ()):
        pods = cluster.server.catalogue.find("", "v1", "pods")
        assert pods is not None
        pod = dict(static_pod(*given["flags"]))
        if name := given.get("name"):
            pod["metadata"] |= {"name": f"kube-controller-manager-{name}"}
            pod["spec"] |= {"nodeName": name}
        if program := given.get("program"):
            pod["spec"]["containers"][0]["command"][0] = program
        cluster.server.objects.create(pods, "kube-system", pod)
    if "pod" in fault:
        patient.pod = OwnPod("kube-system", fault["pod"])
    if not fault.get("reviews", True):
        patient.reviewer = None


def break_server(patient: Patient, fault: JSON) -> None:
    handle = patient.cluster.server.handle

    async def answer(request: Request) -> Any:
        if fault.get("answers") == 0:
            msg = f"{request.method} {request.path}: cannot connect"
            raise TransportError(msg)
        if "answers" in fault:
            return Response(fault["answers"], {}, b"")
        if "version" in fault and request.path == "/version":
            version = json.dumps({"gitVersion": fault["version"]})
            return Response(200, {}, version.encode())
        return await handle(request)

    patient.cluster.server.handle = answer  # type: ignore[method-assign]


def break_files(
    patient: Patient, fault: JSON, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Break the files of the patient; return what stands for their names."""
    key, certificate = Path(patient.key), Path(patient.certificate)
    ends = patient.cluster.clock.now() + timedelta(days=fault.get("ends", 0))
    if "ends" in fault:
        write_authority(directory, ends=ends)
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == key:
            raise PermissionError(13, "Permission denied")
        return read(path)

    match fault.get("key"):
        case "missing":
            key.unlink()
        case "forbidden":
            monkeypatch.setattr(Path, "read_bytes", refuse)
        case "pipe":
            key.unlink()
            os.mkfifo(key)
        case "another":
            key.write_bytes(pem_of(new_key()))
        case "certificate":
            shutil.copy(certificate, key)
        case "no certificate":
            certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\nno\n")
    return {
        "<key>": str(key),
        "<certificate>": str(certificate),
        "<uid>": str(os.getuid()),
        "<day>": f"{ends:%Y-%m-%d}",
        **NAMES,
    }


@pytest.mark.parametrize("name", FAULTS)
async def test_each_fault_is_one_line(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault = FAULTS[name]
    await prepare(patient, fault)
    break_server(patient, fault)
    words = break_files(patient, fault, tmp_path, monkeypatch)
    expected = fault["faults"]
    for word, meaning in words.items():
        expected = [each.replace(word, meaning) for each in expected]
    flags = fault.get("flags", {})
    if check := fault.get("check"):
        assert [await patient.line(check, **flags)] == expected
    else:
        assert await patient.faults(**flags) == expected
    if "checks" in fault:
        checks = [each.check for each in await patient.examined(**flags)]
        assert checks == fault["checks"]


NAMESPACED = {"bootstrap-signer", "token-cleaner"}


async def test_a_real_api_servers_roles_suffice(patient: Patient) -> None:
    recorded = json.loads((DATA / "rbac.json").read_text())
    await patient.take_roles(
        {
            account: [
                rule
                for part in (account, f"{account} with {GRANULAR}")
                for rule in recorded.get(part, ())
            ]
            for account in recorded
            if " " not in account and account not in NAMESPACED
        }
    )
    assert await patient.faults() == []


async def test_a_resource_not_served_has_a_definition(patient: Patient) -> None:
    """It is not an API that a flag of the API server enables."""
    widgets = Resource("example.com", "v1", "widgets", "Widget", PartialObject)
    mine = Descriptor("widget", ".x:X", package="mine", requires=(widgets, PODS))
    patient.build = Registry([*registry().descriptors, mine])
    assert await patient.line("resources", controllers="widget", **OTHER) == (
        "warning resources widget would wait: the API server does not serve "
        "example.com/v1/widgets; mend: apply the definition widgets.example.com, with "
        "the version example.com/v1, or give --controllers=*,-widget"
    )


async def test_the_settings_of_authentication_may_not_be_read(patient: Patient) -> None:
    await patient.forbid(MANAGER, "get", "configmaps")
    await patient.cluster.client.delete(
        ROLE_BINDINGS,
        "kube-system",
        "system::extension-apiserver-authentication-reader",
    )
    line = (
        "endpoints the identity of --authentication-kubeconfig may not get configmaps "
        "extension-apiserver-authentication in kube-system; mend: kubectl create "
        "rolebinding -n kube-system NAME "
        "--role=extension-apiserver-authentication-reader --user=USER"
    )
    assert await patient.faults() == [f"error {line}"]
    tolerant = {"authentication_tolerate_lookup_failure": "true"}
    assert await patient.faults(**tolerant) == [f"warning {line}"]
    assert await patient.faults(authentication_skip_lookup="true") == []


OTHER = {"leader_elect_resource_name": "controller-manager"}


def add_owned(patient: Patient, kind: str, name: str, owner: Any, **parts: Any) -> Any:
    api = "v1" if kind == "Pod" else "apps/v1"
    found = patient.cluster.server.catalogue.of(api, kind)
    assert found is not None
    metadata: dict[str, Any] = {"name": name, "labels": {"a": "b"}}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    body = {"metadata": metadata, **parts}
    return patient.cluster.server.objects.create(found, "kube-system", body).obj


async def test_a_pod_that_needs_its_controllers_is_an_error(patient: Patient) -> None:
    spec = {"containers": [{"name": "a", "image": "a"}]}
    workload = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
    }
    deployment = add_owned(patient, "Deployment", "d", None, spec=workload)
    replica_set = add_owned(patient, "ReplicaSet", "d-1", deployment, spec=workload)
    add_owned(patient, "Pod", "d-1-x", replica_set, spec=spec)
    patient.pod = OwnPod("kube-system", "d-1-x")
    assert await patient.faults() == [
        (
            "error own pod kube-system/d-1-x belongs to a ReplicaSet and Deployment, "
            "and this manager would run deployment-controller, replicaset-controller: "
            "if no replica is left, none is made; mend: run it as a static pod, or "
            "leave these controllers to another manager"
        )
    ]
    assert await patient.line("own pod", controllers="ttl") == (
        "ok own pod kube-system/d-1-x is made by ReplicaSet of Deployment"
    )


@pytest.mark.looptime
async def test_a_check_that_hangs_hangs_alone(patient: Patient) -> None:
    handle = patient.cluster.server.handle

    async def answer(request: Request) -> Any:
        if request.path == "/version":
            await asyncio.Event().wait()
        return await handle(request)

    patient.cluster.server.handle = answer  # type: ignore[method-assign]
    # A thread reads files, and takes no virtual time.
    patient.flags = {"use-service-account-credentials": "true"}
    assert await patient.faults(controllers="ttl", **OTHER) == [
        "error version GET /version: no answer within 10 s"
    ]


async def test_a_group_that_cannot_be_discovered_is_one_line(patient: Patient) -> None:
    """A group with null verbs can be."""
    patient.transport = WithGroup(patient.way, NULL_VERBS)
    assert await patient.faults() == []
    patient.transport = WithGroup(patient.way, UNREADABLE)
    assert await patient.faults() == [
        (
            "warning discovery the resources of sub.example.com/* cannot be "
            "discovered: the discovery document cannot be read: Expected `array | "
            "null`, got `str` - at `$.versions`; mend: mend the server behind "
            "its APIService, or delete the APIService if nothing uses that API"
        )
    ]
