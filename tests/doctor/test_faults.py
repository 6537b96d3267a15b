"""Each fault of a cluster that is brought about is one line; a healthy one has none."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

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
from tests.doctor.patients import (
    BINDINGS,
    ROLE_BINDINGS,
    Patient,
    lease,
    static_pod,
)
from tests.odd_discovery import NULL_VERBS, UNREADABLE, WithGroup

ALLOW = "; mend: allow it in a role of this identity"
UPSTREAM = "host_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d"
RECONCILE = "controller-manager roles {} | kubectl auth reconcile -f -"
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


def add_static_pod(patient: Patient, *command: str) -> None:
    kind = patient.cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    pod = dict(static_pod(*command))
    patient.cluster.server.objects.create(kind, "kube-system", pod)


async def test_on_a_healthy_cluster_all_checks_are_ok(patient: Patient) -> None:
    """It sends reviews, which are not stored, and no other write."""
    results = await patient.examined()
    assert await patient.faults() == []
    assert not has_errors(results)
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


@pytest.mark.parametrize(
    ("resource", "verb", "line"),
    [
        ("events", "patch", "rights: events may not patch events in kube-system"),
        (
            "serviceaccounts/token",
            "create",
            ("rights: tokens may not create serviceaccounts/token in kube-system"),
        ),
        (
            "secrets",
            "delete",
            "rights: serviceaccount-token-controller may not delete secrets",
        ),
        ("*", "watch", "rights: caches may not watch *.*"),
    ],
)
async def test_each_right_that_the_manager_lacks_is_one_line(
    patient: Patient, resource: str, verb: str, line: str
) -> None:
    await patient.forbid(MANAGER, verb, resource)
    assert await patient.faults() == [f"error {line}{ALLOW}"]


async def test_a_lease_that_may_not_be_written_is_one_line(patient: Patient) -> None:
    """The name of the lease counts: one name is in the role of the manager."""
    name = "other"
    locking = "system::leader-locking-kube-controller-manager"
    await patient.cluster.client.delete(ROLE_BINDINGS, "kube-system", locking)
    assert await patient.line("rights: leases") == (
        "ok rights: leases all rights are there"
    )
    faults = await patient.faults(leader_elect_resource_name=name)
    assert faults == [
        (
            "error rights: leases may not get, update leases.coordination.k8s.io "
            f"{name} in kube-system{ALLOW}"
        ),
        (
            f"warning lease the lease kube-system/{name} may not be read; mend: see "
            "rights: leases"
        ),
    ]


async def test_a_coordinated_election_needs_a_lease_candidate(
    patient: Patient,
) -> None:
    """The role of kube-controller-manager has it only in kube-system."""
    flags = {
        "feature_gates": "CoordinatedLeaderElection=true",
        "leader_elect_resource_namespace": "default",
    }
    assert await patient.line("rights: lease candidates", **flags) == (
        "error rights: lease candidates may not create, get, update "
        f"leasecandidates.coordination.k8s.io in default{ALLOW}"
    )


async def test_caches_that_no_controller_has_need_no_right(patient: Patient) -> None:
    await patient.forbid(MANAGER, "watch", "*")
    assert await patient.line(
        "rights: caches", controllers="horizontal-pod-autoscaler-controller"
    ) == (
        "error rights: caches may not watch pods; watch "
        f"horizontalpodautoscalers.autoscaling{ALLOW}"
    )


async def test_missing_rights_of_one_kind_are_only_one_line(patient: Patient) -> None:
    await patient.forbid(MANAGER, "delete", "secrets")
    assert await patient.faults() == [
        f"error rights: serviceaccount-token-controller may not delete secrets{ALLOW}"
    ]


async def test_without_accounts_the_manager_needs_the_rights_of_all_controllers(
    patient: Patient,
) -> None:
    flags = {"controllers": "ttl", "use_service_account_credentials": "false"}
    line = await patient.line("rights: controllers", **flags)
    assert line == (
        f"error rights: controllers ttl-controller may not patch, update nodes{ALLOW}"
    )


async def test_a_controller_without_its_binding_is_one_line(patient: Patient) -> None:
    role = "system:controller:job-controller"
    await patient.cluster.client.delete(BINDINGS, "", role)
    assert await patient.faults() == [
        (
            f"error accounts kube-system/job-controller may do nothing: {role} is not "
            f"bound to it; mend: {RECONCILE.format('job-controller')}"
        )
    ]


async def test_a_role_that_lacks_a_verb_is_one_line(patient: Patient) -> None:
    role = "system:controller:job-controller"
    await patient.forbid(role, "create", "pods")
    assert await patient.faults() == [
        (
            "error accounts kube-system/job-controller may not create pods; mend: "
            f"{RECONCILE.format('job-controller')}"
        )
    ]


NAMESPACED = {"bootstrap-signer", "token-cleaner"}


async def test_the_roles_of_a_real_api_server_have_all_that_is_needed(
    patient: Patient,
) -> None:
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


async def test_a_gate_of_the_manager_needs_rights_that_the_server_may_not_grant(
    patient: Patient,
) -> None:
    """The mend prints the rights of the gate as well, and takes none away."""
    gates = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
    account = "resource-claim-controller"
    for verb in ("get", "list", "watch"):
        await patient.forbid(f"system:controller:{account}", verb, "podgroups")
    assert await patient.line("accounts", feature_gates=gates) == (
        f"error accounts kube-system/{account} may not get, list, watch "
        "podgroups.scheduling.k8s.io; patch, update podgroups.scheduling.k8s.io/status;"
        f" mend: controller-manager roles --feature-gates={gates} "
        "resourceclaim-controller | kubectl auth reconcile -f -"
    )


async def test_accounts_that_cannot_be_made_are_one_line(patient: Patient) -> None:
    await patient.forbid(MANAGER, "create", "serviceaccounts")
    assert await patient.line("accounts", controllers="ttl,job") == (
        "error accounts accounts that may not be created are missing: job-controller, "
        "ttl-controller; mend: allow create serviceaccounts in kube-system, or create "
        "them"
    )


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            {"controllers": "*,-job"},
            (
                "warning controllers --controllers leaves out job-controller; mend: "
                "name them there, unless another manager runs them"
            ),
        ),
        (
            {"allocate_node_cidrs": "false"},
            (
                "warning controllers node-ipam-controller would not run; mend: give "
                "--allocate-node-cidrs"
            ),
        ),
        (
            {"kube_api_content_type": "application/json"},
            (
                "warning flags --kube-api-content-type: has no effect, requests "
                "are always JSON"
            ),
        ),
    ],
)
async def test_what_flags_leave_out_is_one_line(
    patient: Patient, flags: dict[str, str], line: str
) -> None:
    assert await patient.faults(**flags) == [line]


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


async def test_a_custom_resource_that_is_not_served_has_a_definition(
    patient: Patient,
) -> None:
    """It is not an API that a flag of the API server enables."""
    widgets = Resource("example.com", "v1", "widgets", "Widget", PartialObject)
    mine = Descriptor("widget", ".x:X", package="mine", requires=(widgets, PODS))
    patient.build = Registry([*registry().descriptors, mine])
    assert await patient.line("resources", controllers="widget", **OTHER) == (
        "warning resources widget would wait: the API server does not serve "
        "example.com/v1/widgets; mend: apply the definition widgets.example.com, with "
        "the version example.com/v1, or give --controllers=*,-widget"
    )


async def test_the_identity_of_reviews_lacks_its_roles(patient: Patient) -> None:
    """One line for each role, with the command that gives it."""
    await patient.forbid(MANAGER, "create", "tokenreviews")
    assert await patient.faults() == [
        (
            "error endpoints the identity of --authentication-kubeconfig may not "
            "create tokenreviews.authentication.k8s.io; mend: kubectl create "
            "clusterrolebinding NAME --clusterrole=system:auth-delegator --user=USER"
        )
    ]


async def test_the_settings_of_authentication_may_not_be_read(
    patient: Patient,
) -> None:
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


async def test_without_kubeconfigs_for_reviews_two_lines_say_so(
    patient: Patient,
) -> None:
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


async def test_two_managers_that_make_the_same_pods_are_an_error(
    patient: Patient,
) -> None:
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


async def test_a_manager_that_leaves_our_controllers_out_is_well(
    patient: Patient,
) -> None:
    await hold(patient, UPSTREAM)
    add_static_pod(patient, "--controllers", "*,-job", "--controllers=-ttl-controller")
    line = await patient.line("other managers", controllers="job,ttl", **OTHER)
    assert line == f"ok other managers '{UPSTREAM}' leads, and runs other controllers"


async def test_of_several_managers_the_flags_of_the_leader_count(
    patient: Patient,
) -> None:
    """The others stand by, perhaps before their upgrade."""
    await hold(patient, UPSTREAM)
    add_static_pod(patient, "--controllers=*")
    pod = dict(static_pod("--controllers=*,-job"))
    pod["metadata"] |= {"name": "kube-controller-manager-host"}
    pod["spec"] |= {"nodeName": "host"}
    kind = patient.cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    patient.cluster.server.objects.create(kind, "kube-system", pod)
    line = await patient.line("other managers", controllers="job", **OTHER)
    assert line == f"ok other managers '{UPSTREAM}' leads, and runs other controllers"


async def test_the_flags_of_a_manager_of_this_kind_count_as_well(
    patient: Patient,
) -> None:
    """It may hold upstream's lease, from kubeadm's manifest with another image."""
    await hold(patient, OWN)
    pod = dict(static_pod("--controllers=*,-job"))
    pod["spec"]["containers"][0]["command"][0] = "/usr/bin/controller-manager"
    kind = patient.cluster.server.catalogue.find("", "v1", "pods")
    assert kind is not None
    patient.cluster.server.objects.create(kind, "kube-system", pod)
    line = await patient.line("other managers", controllers="job", **OTHER)
    assert line == f"ok other managers '{OWN}' leads, and runs other controllers"


async def test_a_manager_without_controllers_stands_by_under_its_own_lease(
    patient: Patient,
) -> None:
    """Under kube-controller-manager's lease no process would run the controllers."""
    await hold(patient, UPSTREAM)
    line = "controllers no controller starts; mend: name one in --controllers"
    assert await patient.faults(controllers="", **OTHER) == [f"warning {line}"]
    assert await patient.faults(controllers="") == [f"error {line}"]


async def test_a_manager_whose_flags_are_not_known_is_a_warning(
    patient: Patient,
) -> None:
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


async def test_a_pod_that_needs_its_own_controllers_is_an_error(
    patient: Patient,
) -> None:
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
        (
            500,
            "error server the API server at in-memory answered 500 to /healthz",
        ),
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
