"""The usage of services, claims and other objects, and their scopes."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.resources import (
    ResourceQuotaSpec,
    ScopedResourceSelectorRequirement,
)
from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.quota import device_claims, evaluators, scopes
from controller_manager.control.quota.device_claims import resource_claim_usage
from controller_manager.control.quota.resources import is_counted, printed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "node_ports", "balancers"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 1}]}, "0", "0"),
        ({"type": "ExternalName"}, "0", "0"),
        ({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}, "2", "0"),
        ({"type": "LoadBalancer", "ports": [{"port": 1}]}, "1", "1"),
        (
            {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}],
            },
            "1",
            "1",
        ),
    ],
)
def test_a_service_is_charged_for_its_node_ports_and_its_balancer(
    spec: JSON, node_ports: str, balancers: str
) -> None:
    service = msgspec.convert({"metadata": {}, "spec": spec}, Service)
    assert printed(evaluators.service_usage(service)) == {
        "count/services": "1",
        "services": "1",
        "services.loadbalancers": balancers,
        "services.nodeports": node_ports,
    }


def claim(
    size: str | None, status: JSON | None = None, **spec: Any
) -> PersistentVolumeClaim:
    requests = {} if size is None else {"storage": size}
    body = {
        "metadata": {"name": "c", "annotations": spec.pop("annotations", {})},
        "spec": {"resources": {"requests": requests}, **spec},
        "status": status or {},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=PersistentVolumeClaim)


ONE_CLAIM = {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (claim(None), ONE_CLAIM),
        (claim("1Gi"), {**ONE_CLAIM, "requests.storage": "1Gi"}),
        (claim("1500m"), {**ONE_CLAIM, "requests.storage": "2"}),
        (
            claim("1Gi", {"allocatedResources": {"storage": "2Gi"}}),
            {**ONE_CLAIM, "requests.storage": "2Gi"},
        ),
        (
            claim("3Gi", {"allocatedResources": {"storage": "2Gi"}}),
            {**ONE_CLAIM, "requests.storage": "3Gi"},
        ),
        (
            claim("1Gi", storageClassName="gold"),
            {
                **ONE_CLAIM,
                "requests.storage": "1Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            },
        ),
        (
            claim(
                None,
                storageClassName="gold",
                annotations={"volume.beta.kubernetes.io/storage-class": "old"},
            ),
            {
                **ONE_CLAIM,
                "old.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            },
        ),
    ],
)
def test_a_claim_is_charged_for_whole_bytes_also_by_its_class(
    subject: PersistentVolumeClaim, expected: dict[str, str]
) -> None:
    assert printed(evaluators.claim_usage(subject)) == expected
    assert all(map(evaluators.tracks_claim, expected))


def test_a_claim_that_leaves_a_volume_attributes_class_calls_for_a_recount() -> None:
    """A change of its volume does not."""
    bound = claim("1Gi", volumeAttributesClassName="fast", volumeName="v")
    footprint = evaluators.CLAIM_EVALUATOR.footprint
    unbound = claim("1Gi", volumeAttributesClassName="fast")
    assert footprint(bound, NOW) == footprint(unbound, NOW)
    assert footprint(bound, NOW) != footprint(claim("1Gi"), NOW)


def device_claim(*requests: JSON) -> ResourceClaim:
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    return msgspec.convert(body, ResourceClaim)


def devices(name: str, mode: str = "ExactCount", count: int = 1) -> JSON:
    return {"deviceClassName": name, "allocationMode": mode, "count": count}


def test_a_claim_to_devices_is_charged_by_device_class() -> None:
    subject = device_claim(
        {"exactly": devices("gpu", count=2)},
        {"exactly": devices("gpu", "All")},
        {"exactly": devices("disk", "Unknown", 5)},
        {
            "firstAvailable": [
                devices("gpu", count=3),
                devices("gpu", count=1),
                devices("nic", count=4),
            ]
        },
        {},
    )
    assert printed(resource_claim_usage(subject)) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "disk.deviceclass.resource.k8s.io/devices": "0",
        "gpu.deviceclass.resource.k8s.io/devices": "37",
        "nic.deviceclass.resource.k8s.io/devices": "4",
        "requests.deviceclass.resource.kubernetes.io/gpu": "37",
        "requests.deviceclass.resource.kubernetes.io/nic": "4",
    }


def test_a_claim_for_extended_resources_is_charged_for_more_than_its_pod_is() -> None:
    subject = device_claim({"exactly": devices("gpu", count=5)})
    of_pod = {"requests.example.com/gpu": parse_quantity("2")}
    usage = resource_claim_usage(subject, {"gpu": "example.com/gpu"}, of_pod)
    assert printed(usage) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "5",
        "requests.deviceclass.resource.kubernetes.io/gpu": "5",
        "requests.example.com/gpu": "3",
    }


def test_claims_are_charged_for_extended_resources_that_classes_stand_for() -> None:
    """Others are only the pods'. Each class stands for one that has its name."""
    known = {"gpu": "example.com/gpu", "nic": ""}
    names = [
        "count/resourceclaims.resource.k8s.io",
        "disk.deviceclass.resource.k8s.io/devices",
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/gpu",
        "requests.deviceclass.resource.kubernetes.io/nic",
        "requests.deviceclass.resource.kubernetes.io/disk",
        "requests.example.com/fpga",
        "requests.",
        "pods",
    ]
    tracked = [each for each in names if device_claims.tracks(each, known)]
    assert tracked == names[:5]


def test_claims_may_be_charged_for_any_extended_resource_while_no_class_is_known() -> (
    None
):
    """A class that is not listed yet is no class that does not exist."""
    names = [
        "count/resourceclaims.resource.k8s.io",
        "disk.deviceclass.resource.k8s.io/devices",
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/gpu",
        "example.com/gpu",
        "requests.cpu",
        "pods",
    ]
    tracked = [each for each in names if device_claims.tracks(each, None)]
    assert tracked == names[:4]


def test_other_objects_are_counted_by_one_name_or_two() -> None:
    secrets, jobs = (
        evaluators.count_evaluator("", "secrets"),
        evaluators.count_evaluator("batch", "jobs"),
    )
    assert printed(secrets.usage(None, NOW)) == {"count/secrets": "1", "secrets": "1"}
    assert printed(jobs.usage(None, NOW)) == {"count/jobs.batch": "1"}
    assert secrets.tracks("secrets")
    assert not jobs.tracks("jobs")
    assert is_counted("batch", "jobs")
    assert not is_counted("events.k8s.io", "events")


def pod(status: JSON | None = None, **spec: Any) -> Pod:
    body = {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, Pod)


def term(**fields: Any) -> JSON:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [fields]}
    return {"podAffinity": required}


def preferred(**fields: Any) -> JSON:
    terms = [{"weight": 1, "podAffinityTerm": fields}]
    return {
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    }


SIZED: JSON = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    ("scope", "subject", "is_met"),
    [
        ("Terminating", pod(activeDeadlineSeconds=0), True),
        ("Terminating", pod(), False),
        ("NotTerminating", pod(), True),
        ("NotTerminating", pod(activeDeadlineSeconds=5), False),
        ("BestEffort", pod(), True),
        ("BestEffort", pod(**SIZED), False),
        ("BestEffort", pod({"qosClass": "BestEffort"}, **SIZED), True),
        ("NotBestEffort", pod(**SIZED), True),
        ("NotBestEffort", pod(), False),
        ("PriorityClass", pod(priorityClassName="high"), True),
        ("PriorityClass", pod(), False),
        ("CrossNamespacePodAffinity", pod(affinity=term(namespaces=["a"])), True),
        ("CrossNamespacePodAffinity", pod(affinity=term(namespaceSelector={})), True),
        ("CrossNamespacePodAffinity", pod(affinity=preferred(namespaces=["a"])), True),
        ("CrossNamespacePodAffinity", pod(affinity=term()), False),
        ("CrossNamespacePodAffinity", pod(), False),
        ("VolumeAttributesClass", pod(), False),
        ("Unknown", pod(), False),
    ],
)
def test_a_scope_chooses_pods(scope: str, subject: Pod, is_met: bool) -> None:
    """The scopes of a quota, and a selector that says Exists, mean the same."""
    (requirement,) = scopes.requirements_of(ResourceQuotaSpec(scopes=(scope,)))
    assert scopes.pod_meets(requirement, subject, pod_level=True) is is_met


@pytest.mark.parametrize(
    ("operator", "values", "of_high", "of_none"),
    [
        ("In", ["high", "low"], True, False),
        ("In", ["low"], False, False),
        ("NotIn", ["low"], True, True),
        ("NotIn", ["high"], False, True),
        ("Exists", [], True, False),
        ("DoesNotExist", [], False, True),
        ("Unknown", [], False, False),
    ],
)
def test_a_selector_chooses_by_the_class_of_an_object(
    operator: str, values: list[str], of_high: bool, of_none: bool
) -> None:
    def requirement(scope: str) -> ScopedResourceSelectorRequirement:
        return ScopedResourceSelectorRequirement(
            scope_name=scope, operator=operator, values=tuple(values)
        )

    of_pods = requirement("PriorityClass")
    prioritised = pod(priorityClassName="high")
    assert scopes.pod_meets(of_pods, prioritised, pod_level=True) is of_high
    assert scopes.pod_meets(of_pods, pod(), pod_level=True) is of_none
    of_claims = requirement("VolumeAttributesClass")
    named = claim("1", volumeAttributesClassName="high")
    assert scopes.claim_meets(of_claims, named) is of_high
    assert scopes.claim_meets(of_claims, claim("1")) is of_none


def test_a_claim_is_in_each_class_that_its_volume_has_or_is_given() -> None:
    """While a volume is modified it is in both; other scopes have no claims."""
    modified = {"targetVolumeAttributesClassName": "c", "status": "InProgress"}
    status = {"currentVolumeAttributesClassName": "b", "modifyVolumeStatus": modified}
    subject = claim("1", status, volumeAttributesClassName="a")
    met = [
        name
        for name in ("a", "b", "c", "d")
        if scopes.claim_meets(
            ScopedResourceSelectorRequirement(
                scope_name="VolumeAttributesClass", operator="In", values=(name,)
            ),
            subject,
        )
    ]
    assert met == ["a", "b", "c"]
    (other,) = scopes.requirements_of(ResourceQuotaSpec(scopes=("BestEffort",)))
    assert not scopes.claim_meets(other, subject)
