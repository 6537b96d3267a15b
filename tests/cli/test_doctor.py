"""``controller-manager doctor``, over HTTPS and with the identity of kubeadm."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controller_manager.cli.command import make_command
from controller_manager.cli.doctor import own_pod
from controller_manager.devcluster.controlplane import MANAGER
from controller_manager.devcluster.testing import ClusterSettings
from controller_manager.devcluster.testing.cluster import DevelopmentCluster
from controller_manager.doctor.examination import OwnPod
from tests.controllers.certificates.authorities import write_authority


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), ["doctor", *arguments])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a cluster with roles; yield the kubeconfig of kubeadm's user."""
    settings = ClusterSettings(nodes=0, controllers=(), rbac=True)
    path = tmp_path_factory.mktemp("kubeadm") / "controller-manager.conf"
    with DevelopmentCluster(settings) as cluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        path.write_text(yaml.safe_dump({**config, "current-context": MANAGER}))
        yield str(path)


@pytest.fixture
def flags(kubeconfig: str, tmp_path: Path) -> list[str]:
    """Return the flags with which two controllers run under a lease of their own."""
    certificate, key = write_authority(tmp_path)
    return [
        *(f"--{each}kubeconfig={kubeconfig}" for each in ("", "authentication-")),
        f"--authorization-kubeconfig={kubeconfig}",
        *("--controllers=ttl,csrsigning", "--use-service-account-credentials"),
        "--leader-elect-resource-name=two-controllers",
        *("--cluster-signing-cert-file", certificate),
        *("--cluster-signing-key-file", key),
    ]


def test_all_is_well_and_the_exit_code_is_0(flags: list[str]) -> None:
    result = doctor(*flags)
    lines = result.output.splitlines()
    assert (result.exit_code, [line[:9] for line in lines]) == (0, ["ok       "] * 16)


def test_an_error_is_one_line_and_the_exit_code_is_1(
    flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / "ca.key").unlink()
    result = doctor("-o", "json", *flags)
    document = json.loads(result.output)
    assert (result.exit_code, document["ok"]) == (1, False)
    (fault,) = (each for each in document["findings"] if each["level"] != "ok")
    assert fault["check"] == "keys"
    text = doctor(*flags, "--output=text")
    assert text.exit_code == 1
    assert [line for line in text.output.splitlines() if line.startswith("error")] == [
        f"error    keys            {fault['message']}; mend: {fault['mend']}"
    ]


def test_credentials_that_cannot_be_used_are_one_line() -> None:
    """The checks that need no API server run all the same."""
    result = doctor("--kubeconfig=/nonexistent/file")
    assert (result.exit_code, result.output) == (
        1,
        (
            "error    credentials  kubeconfig /nonexistent/file: No such file or "
            "directory\n"
            "ok       flags        all flags have an effect\n"
            "ok       keys         0 files can be read and used\n"
        ),
    )


def test_the_environment_names_its_own_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a pod in the network of its node, whose host name is the node's."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert own_pod() is None
    monkeypatch.setenv("POD_NAMESPACE", "kube-system")
    monkeypatch.setenv("POD_NAME", "manager-a")
    assert own_pod() == OwnPod("kube-system", "manager-a")


def test_the_help_has_the_own_flags_first() -> None:
    lines = doctor("--help").output.splitlines()
    assert lines[:9] == [
        "Say before a swap what would not work on the cluster, and why.",
        "",
        "Usage:",
        "  controller-manager doctor [flags]",
        "",
        "Flags of doctor:",
        "",
        "  -o, --output string",
        '                The format of the report: text or json. (default "text")',
    ]


def static_pod(directory: Path, flags: list[str]) -> Path:
    manifests = directory / "manifests"
    manifests.mkdir()
    path = manifests / "kube-controller-manager.yaml"
    container = {
        "name": "kube-controller-manager",
        "command": ["kube-controller-manager", *flags],
        "volumeMounts": [{"name": "root", "mountPath": "/"}],
    }
    volumes = [{"name": "root", "hostPath": {"path": "/"}}]
    spec = {"containers": [container], "volumes": volumes}
    path.write_text(yaml.safe_dump({"kind": "Pod", "spec": spec}))
    return path


def test_the_flags_of_a_static_pod_are_examined_and_kept_in_ours(
    flags: list[str], tmp_path: Path
) -> None:
    """The flag that is given as well wins: here only one controller is examined."""
    path, ours = static_pod(tmp_path, flags), tmp_path / "ours.yaml"
    result = doctor(
        *("--from-manifest", str(path), f"--write-manifest={ours}"),
        *("--image=registry.example.com/controller-manager:1", "--controllers=ttl"),
    )
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert result.exit_code == 0
    assert "ok controllers 1 controllers start" in lines
    assert lines[-1] == (
        f"ok manifest {ours} is the static pod of this program, with the flags of "
        f"{path}"
    )
    (container,) = yaml.safe_load(ours.read_text())["spec"]["containers"]
    assert container["command"] == ["controller-manager", *flags]
    assert container["image"] == "registry.example.com/controller-manager:1"
    assert ours.stat().st_mode & 0o777 == 0o600


def test_a_bad_manifest_is_one_line_before_anything_is_examined(
    flags: list[str], tmp_path: Path
) -> None:
    path = static_pod(tmp_path, [*flags, "--bogus=1", "stray"])
    taken = tmp_path / "taken.yaml"
    taken.write_text("")
    manifest = f"--from-manifest={path}"
    result = doctor(manifest)
    assert (result.exit_code, result.output) == (
        1,
        f"Error: {path}: unknown flag: --bogus=1\nError: {path}: unknown flag: stray\n",
    )
    result = doctor(manifest, "--image=")
    assert (result.exit_code, result.output) == (1, "Error: --image: needs a value\n")
    path.write_text(
        path.read_text().replace("- --bogus=1\n", "").replace("- stray", "")
    )
    for written, why in (
        (
            path.with_name("ours.yaml"),
            (
                "the kubelet runs each file of that folder; write it to another one, "
                "and move it there for the swap"
            ),
        ),
        (taken, "File exists; delete it, or name another file"),
        (tmp_path / "no" / "ours.yaml", "No such file or directory"),
    ):
        result = doctor(manifest, f"--write-manifest={written}")
        line = f"Error: --write-manifest: {written}: {why}\n"
        assert (result.exit_code, result.output) == (1, line)


def test_no_manifest_is_written_beside_a_link_to_a_manifest(
    flags: list[str], tmp_path: Path
) -> None:
    path = static_pod(tmp_path, flags)
    folder = tmp_path / "kubelet"
    folder.mkdir()
    link = folder / "kube-controller-manager.yaml"
    link.symlink_to(path)
    for written in (folder / "ours.yaml", path.with_name("ours.yaml")):
        result = doctor(f"--from-manifest={link}", f"--write-manifest={written}")
        assert result.exit_code == 1
        assert "the kubelet runs each file of that folder" in result.output
        assert not written.exists()
