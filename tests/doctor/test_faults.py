"""Each fault of a cluster that is brought about is one line; a healthy one has none."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.doctor.examination import OwnPod
from controller_manager.doctor.finding import as_json, has_errors
from controller_manager.registry import registry
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import Registry
from tests.doctor.patients import BINDINGS, ROLE_BINDINGS, Patient, lease, static_pod
from tests.odd_discovery import NULL_VERBS, UNREADABLE, WithGroup

UPSTREAM = "host_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d"
DATA = Path(__file__).parents[1] / "data"
GRANULAR = "DRAResourceClaimGranularStatusAuthorization"
OWN = "host_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d"


@pytest.fixture
async def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


async def hold(patient: Patient, holder: str) -> None:
    renewed = patient.cluster.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    body = json.dumps(lease(holder, renewed)).encode()
    await patient.cluster.client.create_json(LEASES, "kube-system", body)


def add_static_pod(
    patient: Patient, *command: str, name: str = "", program: str = ""
) -> None:
    """Add the static pod of a manager; `name` is that of another node."""
    kind = patient.cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    pod = dict(static_pod(*command))
    if name:
        pod["metadata"] |= {"name": f"kube-controller-manager-{name}"}
        pod["spec"] |= {"nodeName": name}
    if program:
        pod["spec"]["containers"][0]["command"][0] = program
    patient.cluster.server.objects.create(kind, "kube-system", pod)


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


@pytest.mark.parametrize("name", FAULTS)
async def test_each_fault_is_one_line(patient: Patient, name: str) -> None:
    fault = FAULTS[name]
    if "forbid" in fault:
        role, verbs, resource = fault["forbid"]
        for verb in verbs:
            await patient.forbid(ROLES.get(role, role), verb, resource)
    if "unbind" in fault:
        namespace, binding = fault["unbind"]
        kind = ROLE_BINDINGS if namespace else BINDINGS
        await patient.cluster.client.delete(kind, namespace, binding)
    flags = fault.get("flags", {})
    if check := fault.get("check"):
        assert [await patient.line(check, **flags)] == fault["faults"]
    else:
        assert await patient.faults(**flags) == fault["faults"]


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


async def test_a_resource_that_is_not_served_is_one_line(patient: Patient) -> None:
    catalogue = patient.cluster.server.catalogue
    kind = catalogue.find("batch", "v1", "cronjobs")
    assert kind is not None
    catalogue.remove(kind)
    assert await patient.faults() == [
        (
            "warning resources cronjob-controller would wait: the API server does not "
            "serve batch/v1/cronjobs; mend: enable the API there, or give "
            "--controllers=*,-cronjob-controller"
        )
    ]


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


async def test_two_lines_say_that_reviews_lack_kubeconfigs(patient: Patient) -> None:
    patient.reviewer = None
    assert [each.partition("; mend")[0] for each in await patient.faults()] == [
        f"warning endpoints without --{each}-kubeconfig only members of "
        "system:masters read /metrics"
        for each in ("authentication", "authorization")
    ]
    assert await patient.faults(secure_port="0") == []


# Leases


@pytest.mark.parametrize(
    ("holder", "kind"),
    [(UPSTREAM, "kube-controller-manager"), (OWN, "a manager of this kind")],
)
async def test_the_holder_of_the_lease_is_named(
    patient: Patient, holder: str, kind: str
) -> None:
    await hold(patient, holder)
    assert await patient.line("lease") == (
        "ok lease the lease kube-system/kube-controller-manager is held by "
        f"'{holder}', {kind}; this manager takes it when that one stops"
    )


async def test_a_lease_that_has_expired_is_free(patient: Patient) -> None:
    body = json.dumps(lease(UPSTREAM, "2020-01-01T00:00:00.000000Z")).encode()
    await patient.cluster.client.create_json(LEASES, "kube-system", body)
    assert await patient.line("lease") == (
        "ok lease the lease kube-system/kube-controller-manager is free"
    )


OTHER = {"leader_elect_resource_name": "controller-manager"}


async def test_two_makers_of_the_same_pods_are_an_error(patient: Patient) -> None:
    await hold(patient, UPSTREAM)
    add_static_pod(patient, "--v=2", "--controllers=*,tokencleaner", "--leader-elect")
    line = await patient.line("other managers", controllers="job,ttl", **OTHER)
    assert line == (
        f"error other managers '{UPSTREAM}' runs the same controllers under another "
        "lease: job-controller, ttl-controller; mend: give kube-controller-manager "
        "--controllers=*,-job-controller,-ttl-controller"
    )
    line = await patient.line("other managers", controllers="ttl", **OTHER)
    assert line.startswith("warning other managers")


async def test_a_manager_without_our_controllers_is_well(patient: Patient) -> None:
    await hold(patient, UPSTREAM)
    add_static_pod(patient, "--controllers", "*,-job", "--controllers=-ttl-controller")
    line = await patient.line("other managers", controllers="job,ttl", **OTHER)
    assert line == f"ok other managers '{UPSTREAM}' leads, and runs other controllers"


async def test_the_flags_of_the_leader_count(patient: Patient) -> None:
    """The others stand by, perhaps before their upgrade."""
    await hold(patient, UPSTREAM)
    add_static_pod(patient, "--controllers=*")
    add_static_pod(patient, "--controllers=*,-job", name="host")
    line = await patient.line("other managers", controllers="job", **OTHER)
    assert line == f"ok other managers '{UPSTREAM}' leads, and runs other controllers"


async def test_the_flags_of_our_kind_count_as_well(patient: Patient) -> None:
    """It may hold upstream's lease, from kubeadm's manifest with another image."""
    await hold(patient, OWN)
    program = "/usr/bin/controller-manager"
    add_static_pod(patient, "--controllers=*,-job", program=program)
    line = await patient.line("other managers", controllers="job", **OTHER)
    assert line == f"ok other managers '{OWN}' leads, and runs other controllers"


async def test_a_manager_without_controllers_stands_by(patient: Patient) -> None:
    """Under kube-controller-manager's lease no process would run the controllers."""
    await hold(patient, UPSTREAM)
    line = "controllers no controller starts; mend: name one in --controllers"
    assert await patient.faults(controllers="", **OTHER) == [f"warning {line}"]
    assert await patient.faults(controllers="") == [f"error {line}"]


async def test_unknown_flags_are_a_warning(patient: Patient) -> None:
    await hold(patient, UPSTREAM)
    line = await patient.line("other managers", controllers="job", **OTHER)
    assert line == (
        f"warning other managers '{UPSTREAM}' leads, and the controllers that it runs "
        "are unknown; mend: look that its --controllers leaves out what runs here"
    )


# The version, the pod, and an API server that does not answer


@pytest.mark.parametrize(
    ("version", "emulated", "line"),
    [
        ("v1.36.0", "1.36", "ok version the API server has v1.36.0"),
        ("v1.33.9-eks-1", "1.33", "ok version the API server has v1.33.9-eks-1"),
        ("v1.34.1", "1.36", "warning version the API server has v1.34.1"),
        ("v1.32.5", "1.33", "error version the API server has v1.32.5"),
        ("v1.37.0", "1.36", "warning version the API server has v1.37.0"),
        ("v1.38.0", "1.36", "error version the API server has v1.38.0"),
        ("odd", "1.36", "warning version the version of the API server is odd"),
    ],
)
async def test_the_version_of_the_api_server_is_judged(
    patient: Patient, version: str, emulated: str, line: str
) -> None:
    handle = patient.cluster.server.handle

    async def answer(request: Request) -> Any:
        if request.path == "/version":
            return Response(200, {}, json.dumps({"gitVersion": version}).encode())
        return await handle(request)

    patient.cluster.server.handle = answer  # type: ignore[method-assign]
    found = await patient.line("version", emulated_version=emulated)
    assert found.startswith(line)


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


async def test_a_pod_that_cannot_be_found_is_a_warning(patient: Patient) -> None:
    patient.pod = OwnPod("kube-system", "node-1")
    assert await patient.faults() == [
        (
            "warning own pod no pod kube-system/node-1 can be read; mend: set "
            "POD_NAMESPACE and POD_NAME to those of this pod"
        )
    ]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            401,
            (
                "error server the API server at in-memory answered 401 to /healthz; "
                "mend: check the credentials, and the role system:public-info-viewer"
            ),
        ),
        (500, "error server the API server at in-memory answered 500 to /healthz"),
        (None, "error server GET /healthz: cannot connect"),
    ],
)
async def test_an_api_server_that_does_not_answer_is_one_line(
    patient: Patient, answer: int | None, line: str
) -> None:
    """The checks that need it are left out."""

    async def refuse(request: Request) -> Response:
        if answer is None:
            msg = f"{request.method} {request.path}: cannot connect"
            raise TransportError(msg)
        return Response(answer, {}, b"")

    patient.cluster.server.handle = refuse  # type: ignore[method-assign]
    results = await patient.examined()
    assert [each.check for each in results] == ["flags", "keys", "server"]
    assert await patient.faults() == [line]


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
