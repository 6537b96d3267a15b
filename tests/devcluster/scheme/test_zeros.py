"""The fields that Go writes also when they are empty."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.models import condition_times, zeros_of
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create
from tests.devcluster.rows import parsed

EXTENSIONS = "apiextensions.k8s.io/v1"


def filled(api_version: str, kind: str, obj: JSON) -> JSON:
    zeros = zeros_of(api_version, kind)
    assert zeros is not None
    zeros.fill(obj)
    return obj


def test_structs_and_scalars_are_filled_in_at_any_depth() -> None:
    """Not pointers, maps and fields with omitempty; given values stay."""
    driver = {"nodeID": "n"}
    assert filled("storage.k8s.io/v1", "CSINode", {"spec": {"drivers": [driver]}}) == {
        "spec": {"drivers": [{"name": "", "nodeID": "n", "topologyKeys": None}]}
    }
    assert filled("networking.k8s.io/v1", "Ingress", {}) == {
        "spec": {},
        "status": {"loadBalancer": {}},
    }
    null: JSON = {"spec": {"drivers": None}}
    assert filled("storage.k8s.io/v1", "CSINode", null) == {"spec": {"drivers": None}}


def test_a_model_inside_itself_is_filled_in() -> None:
    version: JSON = {
        "schema": {"openAPIV3Schema": {"properties": {"a": {"externalDocs": {}}}}}
    }
    definition: JSON = {"spec": {"versions": [version]}}
    assert filled(EXTENSIONS, "CustomResourceDefinition", definition) == parsed("""
        spec:
          group: ''
          names: {kind: '', plural: ''}
          scope: ''
          versions:
            - name: ''
              served: false
              storage: false
              schema: {openAPIV3Schema: {properties: {a: {externalDocs: {}}}}}
        status:
          acceptedNames: {kind: '', plural: ''}
          conditions: null
          storedVersions: null""")


@pytest.mark.parametrize("given", [{}, {"rules": []}, {"rules": None}])
def test_an_absent_list_is_null_where_go_writes_it(given: JSON) -> None:
    """Also an empty one: protobuf, in which it is stored, does not tell them apart."""
    role = filled("rbac.authorization.k8s.io/v1", "ClusterRole", {**given})
    assert role == {"rules": None}
    rules = [{"verbs": ["get"], "resources": ["pods"]}]
    role = filled("rbac.authorization.k8s.io/v1", "Role", {"rules": rules})
    assert role == {"rules": rules}


def test_a_required_list_is_not_filled_in() -> None:
    assert filled("v1", "LimitRange", {}) == {"spec": {}}


def test_absent_pointers_and_times_are_null_where_go_writes_them() -> None:
    group: JSON = {"name": "g"}
    workload: JSON = {"spec": {"podGroupTemplates": [group]}}
    assert filled("scheduling.k8s.io/v1alpha2", "Workload", workload) == {
        "spec": {
            "podGroupTemplates": [
                {"name": "g", "schedulingConstraints": None, "schedulingPolicy": {}}
            ]
        }
    }
    source: JSON = {"spec": {"dataSource": {"kind": "K", "name": "n"}}}
    claim = filled("v1", "PersistentVolumeClaim", source)
    assert claim["spec"]["dataSource"] == {"kind": "K", "name": "n", "apiGroup": None}
    times = dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime"))
    assert filled("v1", "Event", {}) == {
        **times,
        "involvedObject": {},
        "source": {},
        "reportingComponent": "",
        "reportingInstance": "",
    }
    assert filled("apps/v1", "Deployment", {"spec": {}})["spec"] == {
        "strategy": {},
        "template": {"metadata": {}, "spec": {}},
    }


def test_an_unknown_kind_has_none() -> None:
    assert zeros_of("example.com/v1", "Tree") is None


def test_absent_times_of_conditions_are_null() -> None:
    found = {
        kind: condition_times("v1", kind) for kind in ("Node", "Pod", "Secret", "Tree")
    }
    assert found == {
        "Node": ("lastHeartbeatTime", "lastTransitionTime"),
        "Pod": ("lastProbeTime", "lastTransitionTime"),
        "Secret": (),
        "Tree": (),
    }


@pytest.mark.looptime
async def test_a_stored_object_has_the_fields(cluster: Cluster) -> None:
    """Also those that no default and no client fills in."""
    term = {"weight": 1}
    affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {
        "affinity": {"nodeAffinity": affinity},
        "containers": [{"name": "c", "image": "i"}],
    }
    pod = create(cluster, "Pod", {"spec": spec})
    assert pod["spec"]["affinity"]["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {}}
        ]
    }
