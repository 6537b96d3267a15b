"""The manifest of a static pod gives the flags, and becomes that of this program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.doctor.static_pod import StaticPod, StaticPodError
from controller_manager.options.manager_pods import GivenFlags
from controller_manager.registry import registry
from tests.config.manifests import KUBEADM, container_of, documents, static_pod

KUBECONFIG = "/etc/kubernetes/controller-manager.conf"
FLAGS = registry().flags


@pytest.fixture
def kubeadm(tmp_path: Path) -> JSON:
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


def test_a_container_of_the_program_goes_first(tmp_path: Path) -> None:
    """A container beside it may also have nothing but flags."""
    beside = {"name": "proxy", "args": ["--listen=:1"]}
    own = {"name": "own", "command": ["kube-controller-manager"], "args": ["-v=2"]}
    pod = read(tmp_path, {"spec": {"containers": [beside, own]}})
    assert pod.given == GivenFlags({"v": ("2",)})
    found = pod.ours()["spec"]["containers"]
    assert (found[0], found[1]["name"]) == (beside, "own")


def test_the_files_of_a_kubeconfig_are_mounted(tmp_path: Path, kubeadm: JSON) -> None:
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


def pod_with(flags: list[str], volumes: Mapping[str, JSON], **spec: Any) -> JSON:
    """Return a manifest whose container has volumes, by the path of their mount."""
    named = [
        {"name": f"v{number}", **source}
        for number, source in enumerate(volumes.values())
    ]
    mounts = [
        {"name": f"v{number}", "mountPath": path} for number, path in enumerate(volumes)
    ]
    container = {"command": ["kube-controller-manager", *flags], "volumeMounts": mounts}
    return {"spec": {"containers": [container], "volumes": named, **spec}}


PKI = {"/etc/kubernetes/pki": {"hostPath": {"path": "/data/pki"}}}
MEMORY = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}


def test_both_files_of_a_pair_have_their_path_on_the_node(tmp_path: Path) -> None:
    volumes = {"/pki": {"hostPath": {"path": "/data/pki"}}}
    flag = "--tls-sni-cert-key=/pki/a,/pki/a.key:*.example.com,x"
    flags = read(tmp_path, pod_with([flag], volumes)).flags_on_the_node()
    assert flags == {
        "tls-sni-cert-key": ("/data/pki/a,/data/pki/a.key:*.example.com,x",)
    }


@pytest.mark.parametrize(
    "path", ["/etc//kubernetes/pki/ca", "//etc/kubernetes/x/../pki/ca"]
)
def test_a_path_with_dots_is_that_of_its_file(tmp_path: Path, path: str) -> None:
    pod = read(tmp_path, pod_with([f"--root-ca-file={path}"], PKI))
    assert pod.flags_on_the_node() == {"root-ca-file": ("/data/pki/ca",)}
    assert files_of(pod.ours()) == {
        "/etc/kubernetes/pki/ca": "/data/pki/ca",
        "/tmp": "memory",  # noqa: S108 - in the container
    }


def test_a_path_relative_to_the_process_is_named(tmp_path: Path) -> None:
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, pod_with(["--root-ca-file=ca.crt"], PKI)).ours()
    assert str(refused.value).partition("yaml: ")[2] == (
        "--root-ca-file: ca.crt: name the path from / on"
    )


def test_the_other_containers_of_a_pod_keep_their_volumes(tmp_path: Path) -> None:
    log = {"name": "log", "volumeMounts": [{"name": "logs", "mountPath": "/logs"}]}
    first = {"name": "first", "volumeMounts": [{"name": "ca", "mountPath": "/ca"}]}
    manifest = pod_with(["--root-ca-file=/etc/kubernetes/pki/ca"], PKI)
    manifest["spec"]["containers"].append(log)
    manifest["spec"]["initContainers"] = [first]
    theirs = [
        {"name": "logs", "emptyDir": {}},
        {"name": "ca", "hostPath": {"path": "/ca"}},
    ]
    manifest["spec"]["volumes"] += theirs
    ours = read(tmp_path, manifest).ours()["spec"]
    own = {"path": "/data/pki/ca", "type": "File"}
    assert ours["volumes"] == [
        *theirs,
        {"name": "ca-2", "hostPath": own},
        {"name": "tmp", **MEMORY},
    ]
    assert (ours["containers"][1], ours["initContainers"]) == (log, [first])


def test_each_mount_of_a_volume_is_kept(tmp_path: Path) -> None:
    flags = ["--tls-cert-file=/a/crt", "--tls-private-key-file=/b/key"]
    manifest = pod_with(flags, {"/a/crt": {"hostPath": None, "projected": {}}})
    (container,) = manifest["spec"]["containers"]
    container["volumeMounts"][0]["subPath"] = "crt"
    other = {"name": "v0", "mountPath": "/b/key", "subPath": "key"}
    container["volumeMounts"].append(other)
    ours = read(tmp_path, manifest).ours()
    assert container_of(ours)["volumeMounts"][:-1] == container["volumeMounts"]
    assert ours["spec"]["volumes"][:-1] == manifest["spec"]["volumes"]


def test_the_names_of_volumes_are_unique_labels(tmp_path: Path) -> None:
    """Files may have the name of our own volume, and long ones."""
    names = ("v1", "tmp", f"{'a' * 49}.crt")
    paths = [f"/etc/kubernetes/pki/{each}" for each in names]
    of = ("client-ca-file", "root-ca-file", "service-account-private-key-file")
    flags = [f"--{flag}={path}" for flag, path in zip(of, paths, strict=True)]
    volumes: dict[str, JSON] = {**PKI, "/s": {"projected": {}}}
    manifest = pod_with([*flags, "--tls-cert-file=/s/x"], volumes)
    ours = read(tmp_path, manifest).ours()
    found = {each["name"] for each in ours["spec"]["volumes"]}
    assert found == {"v1", "v1-2", "tmp", "tmp-2", "a" * 49}
    assert {each["name"] for each in container_of(ours)["volumeMounts"]} == found


def test_a_container_that_has_its_own_tmp_keeps_it(tmp_path: Path) -> None:
    where = "/tmp/"  # noqa: S108 - in the container
    volumes: dict[str, JSON] = {where: {"emptyDir": {}}}
    ours = read(tmp_path, pod_with(["--root-ca-file=/tmp/ca"], volumes)).ours()
    assert ours["spec"]["volumes"] == [{"name": "v0", "emptyDir": {}}]
    mount = {"name": "v0", "mountPath": where}
    assert container_of(ours)["volumeMounts"] == [mount]


def test_a_pod_that_must_not_run_as_root_does_not(tmp_path: Path) -> None:
    """The kubelet would not start it; the labels of SELinux open files of the node."""
    security = {"runAsNonRoot": True}
    manifest = pod_with([], {}, securityContext=security)
    labels = {"type": "spc_t"}
    (container,) = manifest["spec"]["containers"]
    container["securityContext"] = {"seLinuxOptions": labels, "runAsUser": None}
    assert container_of(read(tmp_path, manifest).ours())["securityContext"] == {
        "seLinuxOptions": labels,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_manager_that_serves_nothing_has_no_probe(tmp_path: Path) -> None:
    ours = read(tmp_path, pod_with(["--secure-port=0"], {})).ours()
    assert "readinessProbe" not in container_of(ours)
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, pod_with(["--secure-port=https"], {})).ours()
    assert str(refused.value).partition("yaml: ")[2] == (
        "--secure-port: must be a number, not 'https'"
    )


ROWS = yaml.safe_load(Path(__file__).with_name("manifests.yaml").read_text())


@pytest.mark.parametrize(("manifest", "problem"), ROWS)
def test_another_manifest_is_refused_with_its_name(
    tmp_path: Path, manifest: Any, problem: str
) -> None:
    with pytest.raises(StaticPodError) as refused:
        read(tmp_path, manifest)
    path = tmp_path / "kube-controller-manager.yaml"
    assert str(refused.value) == f"{path}: {problem}"


def test_a_file_that_is_not_mounted_is_named(tmp_path: Path, kubeadm: JSON) -> None:
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
