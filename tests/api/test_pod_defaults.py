"""The defaults of a pod template's spec."""

import copy
from typing import Any, Final

import pytest
import yaml

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON


def filled(**spec: Any) -> JSON:
    """Return the fields that are filled in, as far as the spec has them."""
    made = copy.deepcopy(spec)
    default_pod_spec(made)
    return made


def test_an_empty_spec_gets_what_every_template_has() -> None:
    assert filled() == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


def test_what_somebody_has_chosen_stays() -> None:
    chosen: JSON = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "dnsPolicy": "None",
        "securityContext": {"runAsUser": 1},
        "schedulerName": "mine",
        "serviceAccountName": "a",
        "serviceAccount": "a",
    }
    assert filled(**chosen) == chosen


def test_a_container_gets_its_defaults() -> None:
    container, expected = yaml.safe_load("""
- name: c
  image: app:v1
  ports: [{containerPort: 80}]
  env: [{name: N, valueFrom: {fieldRef: {fieldPath: spec.n}}}]
  livenessProbe: {httpGet: {port: 80}}
  readinessProbe: {grpc: {port: 81}, periodSeconds: 5}
  lifecycle: {preStop: {httpGet: {port: 80}}}
- name: c
  image: app:v1
  resources: {}
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
  imagePullPolicy: IfNotPresent
  ports: [{containerPort: 80, protocol: TCP}]
  env: [{name: N, valueFrom: {fieldRef: {fieldPath: spec.n, apiVersion: v1}}}]
  livenessProbe:
    timeoutSeconds: 1
    successThreshold: 1
    failureThreshold: 3
    httpGet: &get {port: 80, path: /, scheme: HTTP}
    periodSeconds: 10
  readinessProbe:
    timeoutSeconds: 1
    successThreshold: 1
    failureThreshold: 3
    grpc: {port: 81, service: ''}
    periodSeconds: 5
  lifecycle: {preStop: {httpGet: *get}}
""")
    assert filled(initContainers=[container])["initContainers"] == [expected]


def test_a_key_of_a_file_must_be_there_unless_the_user_says_otherwise() -> None:
    wanted = {"path": "env", "volumeName": "v", "key": "k"}

    def variables(**more: Any) -> JSON:
        given: JSON = {"name": "V", "valueFrom": {"fileKeyRef": {**wanted, **more}}}
        return {"env": [given]}

    names = ("containers", "initContainers", "ephemeralContainers")
    made = filled(**{each: [{"name": each, **variables()}] for each in names})
    assert [made[each][0]["env"] for each in names] == (
        [variables(optional=False)["env"]] * 3
    )
    kept = filled(containers=[{"name": "c", **variables(optional=True)}])
    assert kept["containers"][0]["env"] == variables(optional=True)["env"]


DIGEST: Final = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("registry:5000/app", "Always"),
        ("registry:5000/app:v1", "IfNotPresent"),
        (f"app@sha256:{DIGEST}", "IfNotPresent"),
        (f"app:v1@sha256:{DIGEST}", "IfNotPresent"),
        (f"registry.example.com:5000/a/app:latest@sha256:{DIGEST}", "Always"),
        # No tag is read from names that nothing can pull.
        ("app:latest@sha256:abc", "IfNotPresent"),
        ("App", "IfNotPresent"),
        ("a//app:latest", "IfNotPresent"),
        (DIGEST, "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_an_image_without_a_fixed_tag_is_always_pulled(image: str, policy: str) -> None:
    made = filled(
        containers=[{"name": "c", "image": image}],
        volumes=[{"name": "v", "image": {"reference": image}}],
    )
    assert made["containers"][0]["imagePullPolicy"] == policy
    assert made["volumes"][0]["image"]["pullPolicy"] == policy


VOLUMES = yaml.safe_load("""
- [{}, {emptyDir: {}}]
- [{emptyDir: {medium: Memory}}, {emptyDir: {medium: Memory}}]
- [{secret: {}}, {secret: {defaultMode: 420}}]
- [{configMap: {}}, {configMap: {defaultMode: 420}}]
- [{hostPath: {path: /x}}, {hostPath: {path: /x, type: ''}}]
- [{iscsi: {}}, {iscsi: {iscsiInterface: default}}]
- [{rbd: {}}, {rbd: {keyring: /etc/ceph/keyring, pool: rbd, user: admin}}]
- - azureDisk: {kind: Managed}
  - azureDisk: {cachingMode: ReadWrite, fsType: ext4, kind: Managed, readOnly: false}
- [{scaleIO: {}}, {scaleIO: {fsType: xfs, storageMode: ThinProvisioned}}]
- - downwardAPI: {items: [{path: p, fieldRef: {}}]}
  - downwardAPI: {defaultMode: 420, items: [{path: p, fieldRef: {apiVersion: v1}}]}
- - projected:
      sources:
        - serviceAccountToken: {path: t}
        - downwardAPI: {items: [{fieldRef: {}}]}
  - projected:
      defaultMode: 420
      sources:
        - serviceAccountToken: {path: t, expirationSeconds: 3600}
        - downwardAPI: {items: [{fieldRef: {apiVersion: v1}}]}
- - ephemeral: {volumeClaimTemplate: {spec: {}}}
  - ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}
""")


@pytest.mark.parametrize(("source", "result"), VOLUMES)
def test_a_volume_gets_the_defaults_of_its_source(source: JSON, result: JSON) -> None:
    """A volume without a source is an empty directory."""
    made = filled(volumes=[{"name": "v", **source}])["volumes"]
    assert made == [{"name": "v", **result}]


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "c", "volumes": [1]},
        {"containers": [{"image": 1, "ports": {}, "livenessProbe": 1, "env": [0]}]},
        {"volumes": [{"name": "v", "secret": "s", "projected": [], "image": 1}]},
    ],
)
def test_what_no_api_server_would_take_is_left_as_it_is(spec: JSON) -> None:
    """Somebody may have written a controller revision by hand."""
    made = filled(**spec)
    for name, value in spec.items():
        if isinstance(value, str):
            assert made[name] == value
        else:
            assert len(made[name]) == len(value)
