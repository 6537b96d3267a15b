"""Names, ordinals, claims, and bodies of pods."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import requested_storage
from controller_manager.controllers.apps.statefulset.identity import (
    claim_changes,
    claim_names,
    claim_prefixes,
    lacks_new_claims,
    missing_claims,
    ordinal_of,
    ordinals,
    parent_and_ordinal,
)
from controller_manager.controllers.apps.statefulset.pod_control import (
    claim_volumes,
    pod_body,
)
from tests.controllers.apps.statefulset.builders import (
    LATER,
    claim,
    claim_template,
    pod,
    stateful_set,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("web-12", ("web", 12)),
        ("my-web-2-3", ("my-web-2", 3)),
        ("web-2147483647", ("web", 2147483647)),
        ("web-2147483648", None),
        ("web-01", None),
        ("web-", None),
        ("web", None),
        ("web-x", None),
        ("-1", None),
        ("web-1\n", None),
    ],
)
def test_a_name_is_that_of_a_set_and_an_ordinal(
    name: str, expected: tuple[str, int] | None
) -> None:
    """Only in the form in which the controller writes it."""
    assert parent_and_ordinal(name) == expected


def test_only_names_of_the_set_have_an_ordinal() -> None:
    """A longer name belongs to another set."""
    subject = stateful_set()
    names = ("web-1", "other-1", "web-x-1", "web-x")
    found = [ordinal_of(subject, pod(0, name=each)) for each in names]
    assert found == [1, None, None, None]
    assert list(ordinals(stateful_set(2, ordinals={"start": 5}))) == [5, 6]
    assert list(ordinals(stateful_set(0))) == []


def test_a_pod_is_the_template_with_an_identity() -> None:
    """The claims' volumes come first; they replace volumes of the same name."""
    template: dict[str, Any] = {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {"a": "b"},
            "finalizers": ["example.com/hold"],
        },
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }
    subject = stateful_set(template=template, volumeClaimTemplates=[claim_template()])
    body = pod_body(subject, subject.spec.template, "web-hash", 2)
    assert msgspec.json.decode(body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-2",
            "generateName": "web-",
            "namespace": "default",
            "labels": {
                "app": "web",
                "statefulset.kubernetes.io/pod-name": "web-2",
                "apps.kubernetes.io/pod-index": "2",
                "controller-revision-hash": "web-hash",
            },
            "annotations": {"a": "b"},
            "finalizers": ["example.com/hold"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "web",
                    "uid": "web",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [{"name": "c", "image": "app:v1"}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}},
                {"name": "tmp", "emptyDir": {}},
            ],
            "hostname": "web-2",
            "subdomain": "web-svc",
        },
    }


def test_a_set_without_a_service_has_pods_without_a_subdomain() -> None:
    """Even if the template has one; without claims the volumes are the template's."""
    containers = [{"name": "c", "image": "app:v1"}]
    for more in ({}, {"subdomain": "other", "hostname": "other"}):
        template = {"spec": {"containers": containers, **more}}
        subject = stateful_set(serviceName="", template=template)
        body = msgspec.json.decode(pod_body(subject, subject.spec.template, "h", 0))
        assert body["spec"] == {"containers": containers, "hostname": "web-0"}


def test_a_claim_is_its_template_with_a_name_and_the_labels_of_the_selector() -> None:
    """Labels of expressions are not copied; the owner is there by policy."""
    template = claim_template(labels={"tier": "a", "app": "x"}, annotations={"a": "b"})
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "Exists"}],
    }
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    subject = stateful_set(
        selector=selector,
        volumeClaimTemplates=[template, claim_template("logs")],
        persistentVolumeClaimRetentionPolicy=policy,
    )
    (made,) = missing_claims(subject, 1, {"logs-web-1": claim("logs-web-1")})
    reference = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "web",
        "uid": "web",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert msgspec.json.decode(msgspec.json.encode(made)) == {
        "metadata": {
            "name": "data-web-1",
            "namespace": "default",
            "labels": {"tier": "a", "app": "web"},
            "annotations": {"a": "b"},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }


def test_of_two_claim_templates_of_one_name_the_last_one_wins() -> None:
    """The API server takes them; a pod with two volumes of one name it refuses."""
    larger = claim_template()
    larger["spec"]["resources"]["requests"]["storage"] = "2Gi"
    templates = [claim_template(), claim_template("logs"), larger]
    subject = stateful_set(1, volumeClaimTemplates=templates)
    made = missing_claims(subject, 0, {})
    assert [(each.metadata.name, requested_storage(each)) for each in made] == [
        ("data-web-0", "2Gi"),
        ("logs-web-0", "1Gi"),
    ]
    assert claim_names(subject, 0) == ("data-web-0", "logs-web-0")
    assert list(claim_prefixes(subject)) == ["default/data-web", "default/logs-web"]
    volumes = claim_volumes(subject, 0)
    assert [each["name"] for each in volumes] == ["data", "logs"]


def test_the_claims_of_a_pod_are_found_by_their_names() -> None:
    """They are checked for being volumes of the pod, and for being deleted."""
    templates = [claim_template(), claim_template("logs")]
    subject = stateful_set(created=LATER, volumeClaimTemplates=templates)
    both = pod(1, claims=("logs-web-1", "data-web-1"))
    assert not lacks_new_claims(subject, both)
    assert lacks_new_claims(subject, pod(1, claims=("data-web-1",)))
    assert lacks_new_claims(subject, pod(1, claims=("data-web-0", "logs-web-1")))
    leaving = claim("data-web-1", deletionTimestamp="2026-01-01T00:00:00Z")
    claims = {"data-web-1": leaving, "logs-web-1": claim("logs-web-1")}
    assert claim_changes(subject, 1, claims, both).deleting == ("data-web-1",)
    assert claim_changes(subject, 1, claims, None).deleting == ("data-web-1",)
    assert set(claim_prefixes(subject)) == {"default/data-web", "default/logs-web"}
