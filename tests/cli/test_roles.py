"""The manifests that ``controller-manager roles`` prints can be applied."""

import yaml
from click.testing import CliRunner, Result

from controller_manager.cli.command import make_command
from controller_manager.registry import registry


def run(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), ["roles", *arguments])


def test_the_role_of_a_controller_is_printed_as_manifests() -> None:
    name = "system:controller:ttl-controller"
    events = {"resources": ["events"], "verbs": ["create", "patch", "update"]}
    assert list(yaml.safe_load_all(run("ttl").output)) == [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["nodes"],
                    "verbs": ["list", "patch", "update", "watch"],
                },
                {"apiGroups": [""], **events},
                {"apiGroups": ["events.k8s.io"], **events},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": "ttl-controller",
                    "namespace": "kube-system",
                }
            ],
        },
    ]


def test_the_rights_that_a_gate_of_the_api_server_adds_are_printed_with_the_gate() -> (
    None
):
    gates = "--feature-gates=DRADeviceTaintRules=true"
    taints = "device-taint-eviction-controller"
    resources = [
        [
            resource
            for rule in next(yaml.safe_load_all(run(*more, taints).output))["rules"]
            for resource in rule["resources"]
        ]
        for more in ((), (gates,))
    ]
    assert resources[1] == [
        *resources[0],
        *("devicetaintrules", "devicetaintrules/status"),
    ]
    result = run("--feature-gates=Nope=true", taints)
    assert result.exit_code == 1
    assert "unrecognized feature gate: Nope" in result.output


def test_without_names_all_roles_are_printed() -> None:
    documents = list(yaml.safe_load_all(run().output))
    enabled = registry().select(["*"])
    own = [each.account for each in enabled if not each.runs_first]
    assert len(documents) == 2 * len(own)
    bound = {each["subjects"][0]["name"] for each in documents if "subjects" in each}
    assert bound == set(own)


def test_a_role_that_counts_in_one_namespace_is_printed_as_such() -> None:
    """It allows nothing elsewhere."""
    role, binding = yaml.safe_load_all(run("tokencleaner").output)
    metadata = {"name": "system:controller:token-cleaner", "namespace": "kube-system"}
    assert (role["kind"], role["metadata"]) == ("Role", metadata)
    assert (binding["kind"], binding["metadata"]) == ("RoleBinding", metadata)
    assert binding["roleRef"]["kind"] == "Role"


def test_an_unknown_controller_has_no_role() -> None:
    """One line suggests similar names."""
    result = run("deploymen")
    assert result.exit_code == 1
    assert result.output == (
        'Error: roles: "deploymen" is not in the list of known controllers; '
        "did you mean deployment-controller?\n"
    )
