"""kubectl moves from client-side to server-side apply, and shows the managers."""

import json

import yaml

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl

pytestmark = NEEDS_KUBECTL

APPLY = ("apply", "--server-side", "-f", "-")
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def deployment(replicas: int) -> str:
    labels = {"app": "web"}
    containers = [{"name": "c", "image": "app:v1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
    )


def shown(kubectl: Kubectl, what: str) -> JSON:
    found: JSON = json.loads(kubectl("get", what, "-o=json", "--show-managed-fields"))
    return found


def managers(obj: JSON) -> list[tuple[str, str]]:
    """Return the managers of the fields of an object, without those of its status."""
    entries = obj["metadata"]["managedFields"]
    return [
        (each["manager"], each["operation"])
        for each in entries
        if "subresource" not in each
    ]


def test_a_deployment_that_a_client_applied_is_applied_on_the_server(
    kubectl: Kubectl,
) -> None:
    kubectl("apply", "-f", "-", stdin=deployment(1))
    web = shown(kubectl, "deployment/web")
    assert managers(web) == [("kubectl-client-side-apply", "Update")]
    kubectl(*APPLY, stdin=deployment(2))
    web = shown(kubectl, "deployment/web")
    assert set(managers(web)) == {
        ("kubectl", "Apply"),
        ("kubectl-last-applied", "Apply"),
    }
    applied = json.loads(web["metadata"]["annotations"][LAST])
    assert applied["spec"]["replicas"] == web["spec"]["replicas"] == 2
    seen = yaml.safe_load(kubectl("apply", "view-last-applied", "deployment/web"))
    assert seen == applied
    for flags in ((), ("--server-side",)):
        changes = kubectl("diff", *flags, "-f", "-", stdin=deployment(3), ok=False)
        assert "-  replicas: 2" in changes
        assert "+  replicas: 3" in changes
    kubectl("apply", "-f", "-", stdin=deployment(4))
    kubectl(*APPLY, stdin=deployment(5))
    assert shown(kubectl, "deployment/web")["spec"]["replicas"] == 5


def test_two_manifests_own_their_parts_of_an_object(kubectl: Kubectl) -> None:
    """Fields that one no longer has are removed; fields of the other one stay."""

    def apply(manager: str, *, ok: bool = True, **data: str) -> str:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
        manifest = yaml.safe_dump({**body, "data": data})
        by = f"--field-manager={manager}"
        return kubectl(*APPLY, by, stdin=manifest, ok=ok)

    apply("one", a="1", b="1")
    apply("two", b="1", c="1")
    apply("one", a="1")
    refused = apply("one", ok=False, c="2")
    assert refused.startswith(
        'error: Apply failed with 1 conflict: conflict with "two": .data.c\n'
    )
    found = shown(kubectl, "configmap/m")
    assert found["data"] == {"a": "1", "b": "1", "c": "1"}
    assert managers(found) == [("one", "Apply"), ("two", "Apply")]


def test_objects_without_a_manifest_leave_the_applied_set(kubectl: Kubectl) -> None:
    def apply(*names: str, flags: tuple[str, ...] = ()) -> str:
        maps = [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            for name in names
        ]
        return kubectl(
            "apply",
            "--prune",
            f"--applyset=configmaps/set{len(flags)}",
            *flags,
            *("-f", "-"),
            stdin=yaml.safe_dump_all(maps),
            KUBECTL_APPLYSET="true",
        )

    apply("a", "b")
    assert "configmap/b pruned" in apply("a")
    apply("c", "d", flags=("--server-side",))
    assert "configmap/d pruned" in apply("c", flags=("--server-side",))
    left = kubectl("get", "configmaps", "-o=name").split()
    assert {"configmap/a", "configmap/c"} <= set(left)
    assert not {"configmap/b", "configmap/d"} & set(left)


def test_a_manifest_with_mistakes_is_refused(kubectl: Kubectl) -> None:
    """By the server, also if kubectl does not validate it."""
    manifest: JSON = yaml.safe_load(deployment(1))
    manifest["spec"]["replica"] = 1
    text = yaml.safe_dump(manifest)
    refused = kubectl(*APPLY, "--validate=false", stdin=text, ok=False)
    assert refused.endswith(".spec.replica: field not declared in schema\n")
    manifest = yaml.safe_load(deployment(1))
    manifest["spec"]["template"]["spec"]["containers"] *= 2
    refused = kubectl(*APPLY, stdin=yaml.safe_dump(manifest), ok=False)
    assert refused.endswith(
        '.spec.template.spec.containers: duplicate entries for key [name="c"]\n'
    )
