"""``devcluster snapshot`` and ``devcluster restore``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_manager.cli.command import main
from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.devcluster.testing.calls import Caller

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(ClusterSettings(nodes=0, controllers=())) as made:
        yield made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Run":
    return Run(monkeypatch, capsys)


class Run:
    def __init__(
        self, patch: pytest.MonkeyPatch, output: pytest.CaptureFixture[str]
    ) -> None:
        self._patch = patch
        self._output = output
        patch.delenv("KUBECONFIG", raising=False)

    def __call__(self, *arguments: str | Path) -> tuple[int, str]:
        """Return exit code and output of the program."""
        line = ["controller-manager", "devcluster", *map(str, arguments)]
        self._patch.setattr("sys.argv", line)
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        shown = self._output.readouterr()
        assert isinstance(code, int | None)
        return code or 0, shown.out + shown.err


def test_a_running_cluster_is_put_back(
    cluster: DevelopmentCluster,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller, file, data = Caller(cluster.kubeconfig), tmp_path / "it", tmp_path / "data"
    caller.add("ConfigMap", MAPS, "a")
    count = cluster.snapshot().count
    known = ("--kubeconfig", cluster.kubeconfig)
    assert run("snapshot", *known, file) == (0, f"{file}: {count} objects\n")
    caller.send("DELETE", f"{MAPS}/a")
    caller.add("ConfigMap", MAPS, "b")
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    with caller.watch(f"{MAPS}?resourceVersion=0") as events:
        assert next(events)["type"] == "ADDED"
        restored = (0, f"{count} objects restored\n")
        assert run("restore", "--keep-watches", file) == restored
        assert {next(events)["type"] for _ in range(2)} == {"ADDED", "DELETED"}
        assert run("restore", file) == restored
        assert next(events)["object"]["code"] == 410
    assert caller.names(MAPS) == ["a"]
    assert run("restore", "--data", data, file) == (0, f"{count} objects restored\n")
    assert run("snapshot", "--data", data, file) == (0, f"{file}: {count} objects\n")
    settings = ClusterSettings(nodes=0, controllers=(), data=data)
    with DevelopmentCluster(settings) as other:
        assert Caller(other.kubeconfig).names(MAPS) == ["a"]


def test_what_cannot_be_done_is_one_line(
    cluster: DevelopmentCluster, run: Run, tmp_path: Path
) -> None:
    text, gone = tmp_path / "text", tmp_path / "gone"
    text.write_text("kind: Pod\n")
    gone.write_text(cluster.kubeconfig.read_text().replace(cluster.url, NOBODY))
    known = ("--kubeconfig", cluster.kubeconfig)
    for arguments, message in (
        (
            ("snapshot", "x"),
            "snapshot: name the cluster: --kubeconfig of a running one",
        ),
        (("restore", *known, text), f"{text}: it is not a snapshot of a development"),
        (
            ("restore", *known, tmp_path / "no"),
            f"{tmp_path / 'no'}: cannot be read: No",
        ),
        (("snapshot", *known, tmp_path), "Invalid value for 'FILE': File"),
        (("snapshot", "--kubeconfig", tmp_path / "no", "x"), "kubeconfig "),
        (
            ("snapshot", "--kubeconfig", gone, tmp_path / "x"),
            f"{gone}: GET /devcluster",
        ),
        (
            ("snapshot", "--data", tmp_path / "no", "x"),
            f"{tmp_path / 'no'}: there is no",
        ),
        (("--data", text), f"--data {text}: is not a data file of a development"),
        (("--nodes=1", "snapshot", "x"), "--nodes: a flag of the cluster, not of snap"),
        (
            ("wait", "x"),
            "devcluster: unexpected argument 'wait'; write a command after",
        ),
    ):
        code, output = run(*arguments)
        assert code in (1, 2), arguments
        assert output.splitlines()[-1].startswith(f"Error: {message}"), output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["gone", "text"]


NOBODY = "https://127.0.0.1:1"
