"""Pod Security Standards, by the labels of a namespace."""

import hashlib
import json
import random
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.pod_security import LATEST
from controller_manager.devcluster.admission.pod_security_checks import violations
from tests.clusters import Cluster
from tests.devcluster.admission.pod_security_pods import random_pod
from tests.devcluster.admission.requests import (
    PODS,
    container,
    decoded,
    patch,
    pod,
    post,
    warnings,
)
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

NAMESPACE = "/api/v1/namespaces/default"
PREFIX = "pod-security.kubernetes.io/"
GOOD: JSON = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""The security context of a container that the level ``restricted`` requires."""

UNRESTRICTED = (
    'allowPrivilegeEscalation != false (container "c" must set '
    "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities "
    '(container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot '
    '!= true (pod or container "c" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "c" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


async def label(cluster: Cluster, **labels: str) -> JSON:
    """Label the namespace ``default``; ``_`` stands for ``-``."""
    named = {PREFIX + name.replace("_", "-"): text for name, text in labels.items()}
    return await patch(cluster, NAMESPACE, {"metadata": {"labels": named}})


def secured(*containers: JSON, **security: Any) -> JSON:
    """Return a spec that all levels allow, with the given changes."""
    return {"containers": [container(securityContext=GOOD | security), *containers]}


SELINUX = "securityContext.seLinuxOptions"
BASELINE: list[tuple[JSON, str]] = [
    (
        {"hostNetwork": True, "hostPID": True},
        "host namespaces (hostNetwork=true, hostPID=true)",
    ),
    (
        {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        'hostPath volumes (volume "a")',
    ),
    (
        {
            "containers": [
                container("a", ports=[{"hostPort": 80}, {"hostPort": 443}]),
                container("b", ports=[{"hostPort": 80}]),
            ]
        },
        'hostPort (containers "a", "b" use hostPorts 443, 80)',
    ),
    (
        {
            "containers": [
                container(
                    livenessProbe={"httpGet": {"host": "h"}},
                    lifecycle={"preStop": {"tcpSocket": {"host": "g"}}},
                )
            ]
        },
        (
            'probe or lifecycle host (container "c" uses probe or lifecycle hosts "g", '
            '"h")'
        ),
    ),
    (
        {"containers": [container(securityContext={"privileged": True})]},
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    (
        {
            "ephemeralContainers": [
                container(
                    "e",
                    securityContext={"capabilities": {"add": ["NET_ADMIN", "KILL"]}},
                )
            ]
        },
        (
            'non-default capabilities (container "e" must not include "NET_ADMIN" in '
            "securityContext.capabilities.add)"
        ),
    ),
    (
        {"containers": [container(securityContext={"procMount": "Unmasked"})]},
        (
            'procMount (container "c" must not set securityContext.procMount to '
            '"Unmasked")'
        ),
    ),
    (
        {
            "securityContext": {"seLinuxOptions": {"type": "t", "user": "u"}},
            "containers": [
                container(securityContext={"seLinuxOptions": {"type": "s"}})
            ],
        },
        (
            f'seLinuxOptions (pod and container "c" set forbidden {SELINUX}: types '
            '"s", '
            '"t"; user may not be set)'
        ),
    ),
    (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        (
            "seccompProfile (pod must not set securityContext.seccompProfile.type to "
            '"Unconfined")'
        ),
    ),
    (
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        (
            "forbidden AppArmor profile (pod must not set AppArmor profile type to "
            '"Unconfined")'
        ),
    ),
    (
        {
            "securityContext": {
                "sysctls": [{"name": "a.b"}, {"name": "net.ipv4.tcp_rmem"}]
            }
        },
        "forbidden sysctls (a.b)",
    ),
    (
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
        (
            "hostProcess (pod must not set "
            "securityContext.windowsOptions.hostProcess=true)"
        ),
    ),
]


@pytest.mark.parametrize(("spec", "problem"), BASELINE)
def test_a_pod_may_not_take_what_baseline_forbids(spec: JSON, problem: str) -> None:
    found = violations("baseline", LATEST, {}, {"containers": [], **spec})
    assert [*map(str, found)] == [problem]


@rows("spec", "problem")
def test_a_pod_must_say_what_restricted_asks_for(spec: JSON, problem: str) -> None:
    found = violations("restricted", LATEST, {}, spec)
    assert ", ".join(map(str, found)) == problem


@rows("level", "minor", "spec", "reasons")
def test_a_level_is_as_it_was_in_its_version(
    level: str, minor: int, spec: JSON, reasons: list[str]
) -> None:
    found = violations(level, minor, {}, {"containers": [], **spec})
    assert [each.reason for each in found] == reasons


RECORDED = [
    ("baseline", 0, "edb54175718d"),
    ("baseline", 8, "edb54175718d"),
    ("baseline", 19, "62bc5210c11a"),
    ("baseline", 22, "62bc5210c11a"),
    ("baseline", 23, "62bc5210c11a"),
    ("baseline", 25, "62bc5210c11a"),
    ("baseline", 27, "22aabb25c8e1"),
    ("baseline", 29, "cf71465dbb36"),
    ("baseline", 31, "788a60c176ba"),
    ("baseline", 32, "426475d8c8f7"),
    ("baseline", 34, "47b5afb43277"),
    ("baseline", 35, "1f6da3e90a64"),
    ("restricted", 0, "7b8110900f79"),
    ("restricted", 8, "9fabcad95ba4"),
    ("restricted", 19, "d3f9610d9a99"),
    ("restricted", 22, "46611b4f9f32"),
    ("restricted", 23, "1eb8b4b5157e"),
    ("restricted", 25, "6733bbfc5742"),
    ("restricted", 27, "c8cb5bfa0851"),
    ("restricted", 29, "0b0814f35aca"),
    ("restricted", 31, "7eca1693e95e"),
    ("restricted", 32, "fa73b2e431d5"),
    ("restricted", 34, "c5ebc076a8cf"),
    ("restricted", 35, "4b5b11bb9af4"),
]
"""Digests of the answers about 300 random pods, by level and minor version."""


@pytest.mark.parametrize(("level", "minor", "digest"), RECORDED)
def test_random_pods_get_the_recorded_answers(
    level: str, minor: int, digest: str
) -> None:
    rng = random.Random(7)
    pods = [random_pod(rng) for _ in range(300)]
    answers = [
        ", ".join(map(str, violations(level, minor, metadata, spec)))
        for metadata, spec in pods
    ]
    text = "\n".join(answers)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest


def test_annotations_count_where_fields_did_not_exist() -> None:
    metadata = {
        "annotations": {
            "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
            "container.seccomp.security.alpha.kubernetes.io/c": "unconfined",
        }
    }
    spec = {"containers": [container()]}
    found = violations("baseline", 18, metadata, spec)
    assert [*map(str, found)] == [
        (
            "forbidden AppArmor profile (annotation must not set AppArmor profile "
            "type to "
            '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
        ),
        (
            "seccompProfile (forbidden annotation "
            'container.seccomp.security.alpha.kubernetes.io/c="unconfined")'
        ),
    ]


@pytest.mark.looptime
async def test_a_namespace_enforces_its_level(cluster: Cluster) -> None:
    """As kubectl shows it."""
    await label(cluster, enforce="restricted")
    answer = await post(cluster, PODS, pod())
    assert (answer["code"], answer["message"]) == (
        403,
        (
            'pods "p" is forbidden: violates PodSecurity "restricted:latest": '
            f"{UNRESTRICTED}"
        ),
    )
    made = await post(cluster, PODS, pod(**secured()))
    assert made["kind"] == "Pod"


@pytest.mark.looptime
async def test_a_namespace_warns_of_pods_and_templates(cluster: Cluster) -> None:
    await label(cluster, warn="restricted", warn_version="v1.30", enforce="baseline")
    text = f'would violate PodSecurity "restricted:v1.30": {UNRESTRICTED}'
    answer = await call(cluster, "POST", PODS, json.dumps(pod()).encode())
    assert (answer.status, warnings(answer)) == (201, [text])
    labels = {"app": "a"}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod()["spec"]},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    answer = await call(cluster, "POST", path, json.dumps(deployment).encode())
    assert (answer.status, warnings(answer)) == (201, [text])


WARNED: list[tuple[dict[str, str], str]] = [
    ({"enforce": "restricted"}, "restricted:latest"),
    ({"enforce": "restricted", "enforce_version": "v1.30"}, "restricted:v1.30"),
    ({"enforce": "restricted", "warn_version": "v1.30"}, "restricted:v1.30"),
    ({"enforce": "baseline"}, ""),
    ({"enforce": "restricted", "warn": "privileged"}, ""),
    ({"enforce": "restricted", "warn": "baseline"}, ""),
    ({"enforce_version": "v1.30"}, ""),
]


def workloads() -> dict[str, JSON]:
    """Return workloads without a security context, by their paths."""
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    ending = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    job = {"spec": {"template": ending}}
    cron_job = {"schedule": "@daily", "jobTemplate": job}
    apps, batch = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces"
    bare = {"selector": labels, "template": template}
    return {
        f"{apps}/deployments": {"spec": spec},
        f"{apps}/replicasets": {"spec": spec},
        f"{apps}/daemonsets": {"spec": spec},
        f"{apps}/statefulsets": {"spec": spec},
        f"{batch}/default/jobs": job,
        f"{batch}/default/cronjobs": {"spec": cron_job},
        "/api/v1/namespaces/default/replicationcontrollers": {"spec": bare},
        "/api/v1/namespaces/default/podtemplates": {"template": template},
    }


@pytest.mark.looptime
@pytest.mark.parametrize(("labels", "level"), WARNED)
async def test_a_namespace_warns_of_workloads_by_the_level_that_it_enforces(
    cluster: Cluster, labels: dict[str, str], level: str
) -> None:
    """Unless it has a level of its own for warnings. Their pods could not be made."""
    await label(cluster, **labels)
    text = f'would violate PodSecurity "{level}": {UNRESTRICTED}'
    answers = [
        await call(
            cluster,
            "POST",
            path,
            json.dumps({"metadata": {"name": "w"}, **obj}).encode(),
        )
        for path, obj in workloads().items()
    ]
    expected = (201, [text] if level else [])
    assert [(each.status, warnings(each)) for each in answers] == [expected] * 8


@pytest.mark.looptime
async def test_updates_of_labels_and_statuses_are_not_checked(cluster: Cluster) -> None:
    """A pod that was there before stays; with another image it is checked."""
    await post(cluster, PODS, pod())
    await label(cluster, enforce="restricted")
    changed = await patch(cluster, f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert changed["metadata"]["labels"] == {"a": "b"}
    image = {"spec": {"containers": [container(image="app:v2")]}}
    merge = "application/strategic-merge-patch+json"
    body = json.dumps(image).encode()
    answer = await call(cluster, "PATCH", f"{PODS}/p", body, content_type=merge)
    assert 'violates PodSecurity "restricted:latest"' in decoded(answer)["message"]


@pytest.mark.looptime
async def test_a_stricter_namespace_warns_of_its_pods(cluster: Cluster) -> None:
    for name in ("b", "a", "c"):
        await post(cluster, PODS, pod(name))
    await post(cluster, PODS, pod("h", hostNetwork=True, **secured()))
    body = json.dumps({"metadata": {"labels": {f"{PREFIX}enforce": "restricted"}}})
    merge = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", NAMESPACE, body.encode(), content_type=merge)
    assert warnings(answer) == [
        (
            'existing pods in namespace "default" violate the new PodSecurity '
            "enforce level "
            '"restricted:latest"'
        ),
        (
            "a (and 2 other pods): allowPrivilegeEscalation != false, unrestricted "
            "capabilities, runAsNonRoot != true, seccompProfile"
        ),
        "h: host namespaces",
    ]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("enforce", "strict", "must be one of privileged, baseline, restricted"),
        ("warn-version", "1.30", 'must be "latest" or "v1.x"'),
        ("audit-version", "v1.x", 'must be "latest" or "v1.x"'),
    ],
)
async def test_wrong_labels_are_refused(
    cluster: Cluster, name: str, value: str, problem: str
) -> None:
    answer = await label(cluster, **{name: value})
    field = f"metadata.labels[{PREFIX}{name}]"
    assert (answer["code"], answer["message"]) == (
        422,
        f'Namespace "default" is invalid: {field}: Invalid value: "{value}": {problem}',
    )
