"""The manifest of a static pod gives the flags, and becomes that of this program."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.doctor.static_pod import StaticPod, StaticPodError
from controller_manager.options.manager_pods import GivenFlags
from controller_manager.options.manager_pods import GivenFlags
from controller_manager.registry import registry
from tests.config.manifests import KUBEADM, container_of, documents, static_pod

KUBECONFIG = "/etc/kubernetes/controller-manager.conf"
FLAGS = registry().flags


@pytest.fixture
def kubeadm(tmp_path: Path) -> JSON:
    """Return kubeadm's manifest, with its kubeconfig where a test may write."""
    (manifest,) = documents(KUBEADM)
    for volume in manifest["spec"]["volumes"]:
        if volume["name"] == "kubeconfig":
            volume["hostPath"]["path"] = str(tmp_path / "node.conf")
    (tmp_path / "node.conf").write_text("kind: Config\n")
    return manifest


def read(directory: Path, manifest: Any) -> StaticPod:
    path = directory / "kube-controller-manager.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return StaticPod(path, FLAGS)


def files_of(manifest: JSON) -> dict[str, str]:
    """Return the path on the node of each file that the container sees."""
    sources = {
        each["name"]: each.get("hostPath", {"path": "memory"})["path"]
        for each in manifest["spec"]["volumes"]
    }
    mounts = container_of(manifest)["volumeMounts"]
    return {each["mountPath"]: sources[each["name"]] for each in mounts}


def test_ours_is_what_the_patch_makes_of_kubeadms_manifest(
    tmp_path: Path, kubeadm: JSON
) -> None:
    """Field by field: the patch is for kubeadm upgrade, and for kustomize."""
    expected = static_pod()
    for volume in expected["spec"]["volumes"]:
        if volume["name"] == "controller-manager-conf":
            volume["hostPath"]["path"] = str(tmp_path / "node.conf")
    assert read(tmp_path, kubeadm).ours() == expected


def test_the_flags_have_the_paths_of_the_node(tmp_path: Path, kubeadm: JSON) -> None:
    flags = read(tmp_path, kubeadm).flags_on_the_node()
    assert flags["kubeconfig"] == (str(tmp_path / "node.conf"),)
    assert flags["root-ca-file"] == ("/etc/kubernetes/pki/ca.crt",)
    assert flags["controllers"] == ("*,bootstrapsigner,tokencleaner",)
    assert len(flags) == len(container_of(kubeadm)["command"]) - 1


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["kube-controller-manager", "--v", "4", "--leader-elect"], []),
        (["/usr/local/bin/kube-controller-manager"], ["-v=4", "--leader-elect=true"]),
        ([], ["--v=4", "--leader-elect"]),
        ([], ["-v=4", "--leader-elect"]),
        ([], ["-v=4", "--leader-elect"]),
        (
            ["/go-runner"],
            [
                "--log-file=/var/log/kube-controller-manager.log",
                *("/usr/local/bin/kube-controller-manager", "-v4", "--leader_elect"),
            ],
        ),
        (["controller-manager", "--v=4", "--leader-elect=true"], []),
    ],
    ids=["separate values", "args", "flags only", "short first", "a wrapper", "ours"],
)
def test_the_flags_are_found_in_any_form(
    tmp_path: Path, command: list[str], args: list[str]
) -> None:
    container = {"name": "a", "command": command, "args": args}
    pod = read(tmp_path, {"spec": {"containers": [{"name": "log"}, container]}})
    assert pod.given.values == {"v": ("4",), "leader-elect": ("true",)}
    assert pod.given.unknown == ()
    ours = pod.ours("registry.example.com/ours:1")["spec"]["containers"][1]
    assert ours["command"][0] == "controller-manager"
    assert "kube-controller-manager" not in " ".join(ours["command"])
    assert ours["image"] == "registry.example.com/ours:1"
    assert "args" not in ours


def test_a_container_that_names_the_program_goes_before_one_of_flags_alone(
    tmp_path: Path,
) -> None:
    """A container beside it may also have nothing but flags."""
    beside = {"name": "proxy", "args": ["--listen=:1"]}
    own = {"name": "own", "command": ["kube-controller-manager"], "args": ["-v=2"]}
    pod = read(tmp_path, {"spec": {"containers": [beside, own]}})
    assert pod.given == GivenFlags({"v": ("2",)})
    found = pod.ours()["spec"]["containers"]
    assert (found[0], found[1]["name"]) == (beside, "own")


def test_files_that_a_kubeconfig_names_are_mounted_too(
    tmp_path: Path, kubeadm: JSON
) -> None:
    """A relative path begins at the kubeconfig, as its container sees it."""
    user = {"client-certificate": "pki/own.crt", "client-key": "/etc/kubernetes/pki/k"}
    config = {"users": [{"name": "a", "user": user}], "clusters": [{"cluster": None}]}
    (tmp_path / "node.conf").write_text(yaml.safe_dump(config))
    found = files_of(read(tmp_path, kubeadm).ours())
    assert found == {
        KUBECONFIG: str(tmp_path / "node.conf"),
        **{
            path: path
            for name in ("ca.crt", "ca.key", "front-proxy-ca.crt", "sa.key", "own.crt")
            if (path := f"/etc/kubernetes/pki/{name}")
        },
        "/etc/kubernetes/pki/k": "/etc/kubernetes/pki/k",
        "/tmp": "memory",  # noqa: S108 - in the container
    }


def test_files_of_other_volumes_keep_them_and_a_user_stays(
    tmp_path: Path, kubeadm: JSON
) -> None:
    """As in a cluster whose components have users of their own."""
    kubeadm["spec"]["securityContext"]["runAsUser"] = 2000
    container = container_of(kubeadm)
    container["command"] = [
        *("kube-controller-manager", "--tls-sni-cert-key=/certs/a.crt,/certs/a.key:x")
    ]
    mount = {"name": "certs", "mountPath": "/certs"}
    volume = {"name": "certs", "projected": {"sources": []}}
    container["volumeMounts"].append(mount)
    kubeadm["spec"]["volumes"].append(volume)
    ours = read(tmp_path, kubeadm).ours()
    assert container_of(ours)["volumeMounts"][:-1] == [mount]
    assert ours["spec"]["volumes"][:-1] == [volume]
    assert ours["spec"]["securityContext"]["runAsUser"] == 2000
    assert container_of(ours)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_two_files_of_one_name_have_two_volumes(tmp_path: Path, kubeadm: JSON) -> None:
    container_of(kubeadm)["command"] = [
        "kube-controller-manager",
        "--client-ca-file=/etc/kubernetes/pki/ca.crt",
        "--root-ca-file=/etc/kubernetes/pki/etcd/ca.crt",
    ]
    ours = read(tmp_path, kubeadm).ours()
    names = [each["name"] for each in ours["spec"]["volumes"]]
    assert names == ["ca-crt", "ca-crt-2", "tmp"]


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (None, "is no manifest of a pod: Expected `object`, got `null`"),
        (
            {"kind": "Pod"},
            "is no manifest of a pod: Object missing required field `spec`",
        ),
        (
            {"spec": {"containers": [{"command": "kube-controller-manager"}]}},
            (
                "is no manifest of a pod: Expected `array | null`, got `str` - at "
                "`$.spec.containers[0].command`"
            ),
        ),
        (
            {"spec": {"containers": [{"command": ["kube-scheduler"]}]}},
            (
                "no container of it runs kube-controller-manager; name the manifest of "
                "its static pod, or give the flags"
            ),
        ),
    ],
)
def test_another_manifest_is_refused_with_its_name(
    tmp_path: Path, manifest: Any, problem: str
) -> None:
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, manifest)
    path = tmp_path / "kube-controller-manager.yaml"
    assert str(refused.value) == f"{path}: {problem}"


def test_a_file_that_the_container_does_not_see_is_named(
    tmp_path: Path, kubeadm: JSON
) -> None:
    container_of(kubeadm)["command"].append("--config=/elsewhere/config.yaml")
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, kubeadm).ours()
    assert str(refused.value).partition("yaml: ")[2] == (
        "--config names /elsewhere/config.yaml, and no volume is mounted there; mount "
        "the file, or take the flag away"
    )
    (tmp_path / "node.conf").unlink()
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, kubeadm).ours()
    assert str(refused.value).partition("yaml: ")[2] == (
        f"the kubeconfig {KUBECONFIG}: No such file or directory"
    )
