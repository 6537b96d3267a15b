"""Kubeconfigs are read; an unusable one gives an error message of one line."""

import asyncio
import base64
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.client.identity import exec_plugin
from controller_manager.client.identity.credentials import (
    Credentials,
    in_cluster,
    load_credentials,
)
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.identity.tokens import TokenFile
from controller_manager.clock import LoopClock, SystemClock
from controller_manager.serving.certificates import self_signed
from tests.clusters import EPOCH

CLOCK = LoopClock(EPOCH)


def kubeconfig(
    path: Path, user: Any = None, cluster: Any = None, **changes: Any
) -> str:
    server = {"server": "https://127.0.0.1:6443"}
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {**server, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        **changes,
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


def load(path: Path, user: Any = None, cluster: Any = None) -> Credentials:
    return load_credentials(kubeconfig(path, user, cluster), "", CLOCK)


def problem_of(path: str) -> str:
    """Return the one line that says why a kubeconfig cannot be used."""
    with pytest.raises(ConfigError) as caught:
        load_credentials(path, "", CLOCK)
    problem = str(caught.value)
    assert "\n" not in problem
    return problem


async def bearer(credentials: Credentials) -> str:
    return dict((await credentials.identity()).headers)["Authorization"]


@pytest.mark.looptime
async def test_a_token_is_presented(tmp_path: Path) -> None:
    credentials = load(tmp_path)
    assert credentials.server == "https://127.0.0.1:6443"
    found = (await credentials.identity()).headers
    assert found == (("Authorization", "Bearer secret"),)


@pytest.mark.looptime
@pytest.mark.parametrize("password", ["pw", "", None])
async def test_passwords_are_presented(tmp_path: Path, password: str | None) -> None:
    credentials = load(tmp_path, {"username": "me", "password": password})
    encoded = base64.b64encode(f"me:{password or ''}".encode()).decode()
    found = (await credentials.identity()).headers
    assert found == (("Authorization", f"Basic {encoded}"),)


@pytest.mark.looptime
async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    credentials = load(tmp_path, {"tokenFile": "token"})
    tokens = [await bearer(credentials)]
    file.write_text("second\n")
    tokens.append(await bearer(credentials))
    await asyncio.sleep(61)
    tokens.append(await bearer(credentials))
    file.unlink()
    await asyncio.sleep(61)
    tokens.append(await bearer(credentials))
    first, second = "Bearer first", "Bearer second"
    assert tokens == [first, first, second, second]


def test_the_master_flag_overrides_the_server(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path)
    assert (
        load_credentials(path, "10.0.0.1:8080", CLOCK).server == "http://10.0.0.1:8080"
    )
    assert load_credentials("", "https://h", CLOCK).server == "https://h"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = kubeconfig(tmp_path / "one", users=[])
    other = {"server": "https://other"}
    second = kubeconfig(tmp_path / "two", {"tokenFile": "token"}, other)
    credentials = load_credentials(f"{first}:{second}", "", CLOCK)
    assert credentials.server == "https://127.0.0.1:6443"
    assert isinstance(credentials._source, TokenFile)
    assert credentials._source._path == tmp_path / "two" / "token"


PROBLEMS = yaml.safe_load(Path(__file__).with_name("problems.yaml").read_text())


@pytest.mark.parametrize(("given", "said"), PROBLEMS, ids=lambda each: str(each)[:60])
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, given: JSON, said: str
) -> None:
    path = tmp_path / "kubeconfig"
    if "text" not in given:
        kubeconfig(
            tmp_path,
            given.get("user"),
            given.get("cluster"),
            **given.get("changes", {}),
        )
    elif given["text"] is not None:
        path.write_text(given["text"] + "\n")
    found, expected = problem_of(str(path)), said.replace("<dir>", str(tmp_path))
    if said.endswith("…"):
        expected = expected.removesuffix("…")
        found = found[: len(expected)]
    assert found == expected


async def test_null_is_empty_in_a_kubeconfig(tmp_path: Path) -> None:
    """In lists, too, as Go reads it."""
    program = {
        "command": "sh",
        "args": ["-c", 'echo "$A" >&2; exit 1', None],
        "env": [{"name": "A", "value": None}, {"name": "B"}],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": None,
    }
    nothing = dict.fromkeys(("as", "as-groups", "as-user-extra", "token", "username"))
    users = [None, {"name": None}, {"name": "u", "user": {**nothing, "exec": program}}]
    clusters = [
        None,
        {"name": "c", "cluster": {"server": "https://x", "extensions": [None]}},
    ]
    path = kubeconfig(tmp_path, users=users, clusters=clusters)
    credentials = load_credentials(path, "", CLOCK)
    with pytest.raises(ConfigError, match=r"sh exited with 1$"):
        await credentials.identity()
    impersonated = {"as": "jane", "as-groups": [None], "as-user-extra": {"a": None}}
    assert (
        await load(tmp_path, {"token": "t", **impersonated}).identity()
    ).headers == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", ""),
    )


@pytest.mark.looptime
async def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(self_signed("ca", ["x"]).certificate)
    credentials = in_cluster(CLOCK, tmp_path)
    assert credentials.server == "https://[fd00::1]:443"
    assert (await credentials.identity()).headers == (("Authorization", "Bearer t"),)


def test_without_configuration_the_error_lists_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="give --kubeconfig PATH or --master URL"):
        in_cluster(CLOCK, tmp_path)


# Changes while the daemon runs


@pytest.mark.looptime
async def test_a_401_reads_the_token_file_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    credentials = load(tmp_path, {"tokenFile": "token"})
    refused = await credentials.identity()
    assert await credentials.refresh(refused) is False
    (tmp_path / "token").write_text("second")
    # Several requests were refused at once; each may be sent again.
    assert await credentials.refresh(refused) is True
    assert await credentials.refresh(refused) is True
    assert await bearer(credentials) == "Bearer second"


@pytest.mark.looptime
async def test_changed_certificate_files_are_used(tmp_path: Path) -> None:
    """A new pair makes new TLS settings; a new certificate without its key does not."""
    pair = self_signed("a", ["x"])
    (tmp_path / "a.crt").write_bytes(pair.certificate)
    (tmp_path / "a.key").write_bytes(pair.key)
    files = {"client-certificate": "a.crt", "client-key": "a.key"}
    credentials = load(tmp_path, files)
    first = (await credentials.identity()).tls
    await asyncio.sleep(11)
    assert (await credentials.identity()).tls is first
    new = self_signed("a", ["x"])
    (tmp_path / "a.crt").write_bytes(new.certificate)
    await asyncio.sleep(11)
    assert (await credentials.identity()).tls is first
    (tmp_path / "a.key").write_bytes(new.key)
    await asyncio.sleep(11)
    assert (await credentials.identity()).tls is not first


@pytest.mark.looptime
async def test_a_user_may_be_impersonated(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"scopes/x": ["v", "w"]},
    }
    assert (await load(tmp_path, user).identity()).headers == (
        ("Authorization", "Bearer t"),
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes%2Fx", "v"),
        ("Impersonate-Extra-scopes%2Fx", "w"),
    )


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://a.example", "http://environment:3128"),
        ("https://spared.example", None),
        ("https://127.0.0.1:6443", None),
        ("https://10.96.0.1", None),
        ("https://10.0.0.1", "http://environment:3128"),
    ],
)
def test_a_proxy_is_the_kubeconfigs_or_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, proxy: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,spared.example,10.96.0.0/12")
    assert load(tmp_path, cluster={"server": server}).proxy == proxy
    own = {"server": server, "proxy-url": "http://own:1"}
    assert load(tmp_path, cluster=own).proxy == "http://own:1"


def test_if_one_of_several_files_is_missing_it_is_ignored(tmp_path: Path) -> None:
    """As kubectl does with $KUBECONFIG."""
    path = kubeconfig(tmp_path)
    both = f"{tmp_path}/absent:{path}"
    assert load_credentials(both, "", CLOCK).server == "https://127.0.0.1:6443"


# Exec plugins


class Shifted(SystemClock):
    """The real time, and some seconds that a test adds: a plugin is a real process."""

    seconds = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds


class Plugin:
    """A plugin whose answers a test sets; it counts its runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.clock = Shifted()
        self.script = directory / "plugin"
        self.script.write_text(
            f"#!/bin/sh\necho run >> {directory}/runs\n"
            f'echo "$KUBERNETES_EXEC_INFO" > {directory}/info\n'
            f'echo "$GIVEN $1" > {directory}/arguments\n'
            f". {directory}/answer\n"
        )
        self.script.chmod(0o755)

    def answers(self, token: str, seconds: float | None = None) -> None:
        status: dict[str, str] = {"token": token}
        if seconds is not None:
            ends = self.clock.now() + timedelta(seconds=seconds)
            status["expirationTimestamp"] = ends.isoformat()
        answer = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        self.does(f"echo '{json.dumps(answer)}'")

    def does(self, script: str) -> None:
        (self._directory / "answer").write_text(script)

    @property
    def runs(self) -> int:
        file = self._directory / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def credentials(self, cluster: Any = None, **section: Any) -> Credentials:
        user = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "./plugin",
                "args": ["argument"],
                "env": [{"name": "GIVEN", "value": "environment"}],
                "interactiveMode": "Never",
                **section,
            }
        }
        path = kubeconfig(self._directory, user, cluster)
        return load_credentials(path, "", self.clock)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_plugin_is_run_once_for_all_that_wait(
    plugin: Plugin, tmp_path: Path
) -> None:
    plugin.answers("t", 3600)
    credentials = plugin.credentials(provideClusterInfo=True)
    tokens = await asyncio.gather(*(bearer(credentials) for _ in range(5)))
    assert (tokens, plugin.runs) == (["Bearer t"] * 5, 1)
    assert (tmp_path / "arguments").read_text() == "environment argument\n"
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://127.0.0.1:6443"}},
    }


@pytest.mark.parametrize("given", ["file", "data"])
async def test_a_plugin_gets_the_authorities_of_the_cluster(
    plugin: Plugin, tmp_path: Path, given: str
) -> None:
    """As base64, also if the kubeconfig names a file, which is read at each run."""
    old, new = (self_signed("ca", ["127.0.0.1"]).certificate for _ in "ab")
    file = tmp_path / "ca.crt"
    file.write_bytes(old)
    plugin.answers("t", 3600)
    cluster = {
        "file": {"certificate-authority": "ca.crt"},
        "data": {"certificate-authority-data": base64.b64encode(old).decode()},
    }[given]
    credentials = plugin.credentials(cluster, provideClusterInfo=True)
    told: list[bytes] = []
    for change in (lambda: None, lambda: file.write_bytes(new), file.unlink):
        change()
        await credentials.refresh(await credentials.identity())
        info = json.loads((tmp_path / "info").read_text())
        data = info["spec"]["cluster"]["certificate-authority-data"]
        told.append(base64.b64decode(data))
    assert told == ([old, new, new] if given == "file" else [old] * 3)


async def test_a_plugin_gets_what_the_kubeconfig_says_of_the_cluster(
    plugin: Plugin, tmp_path: Path
) -> None:
    plugin.answers("t", 3600)
    cluster = {
        "tls-server-name": "api.test",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy.test:3128",
    }
    extensions = [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        {"name": "another", "extension": {"secret": "s"}},
    ]
    credentials = plugin.credentials(
        {**cluster, "extensions": extensions}, provideClusterInfo=True
    )
    await credentials.identity()
    assert json.loads((tmp_path / "info").read_text())["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://127.0.0.1:6443",
            **cluster,
            "config": {"audience": "a"},
        },
    }


async def bearer_becomes(credentials: Credentials, token: str) -> None:
    async with asyncio.timeout(10):
        while await bearer(credentials) != f"Bearer {token}":  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("lives", "renewed_after"), [(3600, 3540), (30, 22.5), (8, 6)])
async def test_a_credential_is_renewed_in_the_background(
    plugin: Plugin, lives: float, renewed_after: float
) -> None:
    plugin.answers("old", lives)
    credentials = plugin.credentials()
    assert await bearer(credentials) == "Bearer old"
    plugin.answers("new", 2 * 3600)
    plugin.clock.seconds += renewed_after - 0.5
    for _ in range(20):
        assert await bearer(credentials) == "Bearer old"
    assert plugin.runs == 1
    plugin.clock.seconds += 1
    assert await bearer(credentials) == "Bearer old"
    await bearer_becomes(credentials, "new")
    assert plugin.runs == 2
    await credentials.close()


async def test_a_plugin_of_short_tokens_runs_now_and_then(plugin: Plugin) -> None:
    """It does not run again and again."""
    credentials = plugin.credentials()
    for number in range(4):
        plugin.answers(str(number), 40)
        await bearer_becomes(credentials, str(number))
        for _ in range(10):
            assert await bearer(credentials) == f"Bearer {number}"
            await asyncio.sleep(0.01)
        plugin.clock.seconds += 31
    assert plugin.runs == 4
    await credentials.close()


async def test_a_plugin_of_expired_tokens_runs_once_a_second(plugin: Plugin) -> None:
    """The clock may be wrong, so each token is presented."""
    plugin.answers("t", -5)
    credentials = plugin.credentials()
    for _ in range(3):
        for _ in range(20):
            assert await bearer(credentials) == "Bearer t"
        plugin.clock.seconds += 1
    assert plugin.runs == 3


async def test_a_failing_plugin_leaves_a_valid_credential(plugin: Plugin) -> None:
    """A failing renewal is logged, not passed on."""
    plugin.answers("old", 30)
    credentials = plugin.credentials()
    await credentials.identity()
    plugin.does("echo no such profile >&2; exit 3")
    plugin.clock.seconds += 25
    for _ in range(20):
        assert await bearer(credentials) == "Bearer old"
        await asyncio.sleep(0.01)
    assert plugin.runs == 2  # not run again and again
    await credentials.close()


async def test_certificate_files_are_not_read_for_each_request_beside_a_plugin(
    plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_bytes(self_signed("ca", ["127.0.0.1"]).certificate)
    plugin.answers("t", 3600)
    credentials = plugin.credentials({"certificate-authority": "ca.crt"})
    read: list[Path] = []
    read_bytes = Path.read_bytes

    def noted(file: Path) -> bytes:
        read.append(file)
        return read_bytes(file)

    monkeypatch.setattr(Path, "read_bytes", noted)
    reads = []
    for seconds in (0, 9, 2, 9):
        plugin.clock.seconds += seconds
        for _ in range(20):
            identity = await credentials.identity()
        reads.append(len(read))
    await credentials.refresh(identity)
    for _ in range(20):
        await credentials.identity()
    assert [*reads, len(read)] == [1, 1, 2, 2, 3]


async def test_a_401_runs_the_plugin_again(plugin: Plugin) -> None:
    """Even though the credential says that it is valid."""
    plugin.answers("old", 3600)
    credentials = plugin.credentials()
    refused = await credentials.identity()
    plugin.answers("new", 3600)
    assert await credentials.refresh(refused) is True
    assert await credentials.refresh(refused) is True
    assert plugin.runs == 2
    assert await bearer(credentials) == "Bearer new"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo no such profile >&2; exit 3", "plugin exited with 3: no such profile"),
        ("echo hello", "plugin printed no ExecCredential: JSONDecodeError("),
        ("echo '{}'", "plugin printed no ExecCredential: KeyError('status')"),
        (
            'echo \'{"apiVersion":"client.authentication.k8s.io/v1","status":{}}\'',
            "plugin returned no token and no certificate",
        ),
        (
            'echo \'{"apiVersion":"v2","status":{"token":"t"}}\'',
            ("plugin answered with apiVersion v2, not client.authentication.k8s.io/v1"),
        ),
    ],
)
async def test_an_error_of_a_plugin_is_named(
    plugin: Plugin, script: str, problem: str
) -> None:
    plugin.does(script)
    credentials = plugin.credentials()
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            await credentials.identity()
        assert problem in str(caught.value)
        assert "\n" not in str(caught.value)
    assert plugin.runs == 1


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"command": ""}, "no command is named"),
        ({"apiVersion": "v1"}, "apiVersion 'v1' is not supported"),
        ({"interactiveMode": "Always"}, "interactiveMode Always needs a terminal"),
    ],
)
def test_a_plugin_that_cannot_be_run_is_refused(
    plugin: Plugin, section: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        plugin.credentials(**section)


async def test_a_plugin_that_is_missing_says_how_to_get_it(plugin: Plugin) -> None:
    credentials = plugin.credentials(command="./gone", installHint="apt install gone")
    with pytest.raises(ConfigError, match="No such file or directory; apt install"):
        await credentials.identity()


async def test_a_plugin_that_hangs_is_killed(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "_TIMEOUT", 0.1)
    plugin.does("exec sleep 60")
    with pytest.raises(ConfigError, match=r"plugin gave no answer within 0\.1 s"):
        await plugin.credentials().identity()


async def test_a_slow_plugin_outlives_its_first_caller(plugin: Plugin) -> None:
    plugin.answers("t", 3600)
    plugin.does("sleep 0.5; " + (plugin.script.parent / "answer").read_text())
    credentials = plugin.credentials()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(credentials.identity(), 0.1)
    assert await bearer(credentials) == "Bearer t"
    assert plugin.runs == 1


@pytest.mark.looptime
async def test_a_token_file_that_is_being_written_leaves_the_last_in_use(
    tmp_path: Path,
) -> None:
    """The file is empty for a moment; without an earlier token that is an error."""
    (tmp_path / "token").write_text("good")
    credentials = load(tmp_path, {"tokenFile": "token"})
    await credentials.identity()
    (tmp_path / "token").write_text("")
    await asyncio.sleep(61)
    assert await bearer(credentials) == "Bearer good"
    (tmp_path / "token").write_text("better")
    assert await bearer(credentials) == "Bearer better"
    (tmp_path / "token").write_text("")
    fresh = load(tmp_path, {"tokenFile": "token"})
    with pytest.raises(ConfigError, match="the file is empty"):
        await fresh.identity()
