"""Kubeconfigs are read, and a bad one is named in one line."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.client.credentials import (
    TokenFile,
    in_cluster,
    load_credentials,
)
from controller_manager.client.kubeconfig import ConfigError
from controller_manager.clock import LoopClock
from controller_manager.serving.certificates import self_signed
from tests.clusters import EPOCH

CLOCK = LoopClock(EPOCH)


def kubeconfig(path: Path, **changes: Any) -> str:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        **changes,
    }
    file = path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


@pytest.mark.looptime
async def test_a_token_is_presented(tmp_path: Path) -> None:
    """As a bearer."""
    credentials = load_credentials(kubeconfig(tmp_path), "", CLOCK)
    assert credentials.server == "https://127.0.0.1:6443"
    assert await credentials.headers() == (("Authorization", "Bearer secret"),)


@pytest.mark.looptime
async def test_user_and_password_are_presented(tmp_path: Path) -> None:
    """As basic authentication."""
    users = [{"name": "u", "user": {"username": "me", "password": "pw"}}]
    credentials = load_credentials(kubeconfig(tmp_path, users=users), "", CLOCK)
    encoded = base64.b64encode(b"me:pw").decode()
    assert await credentials.headers() == (("Authorization", f"Basic {encoded}"),)


@pytest.mark.looptime
async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """And a file that vanished leaves the last token in use."""
    (tmp_path / "token").write_text("first\n")
    users = [{"name": "u", "user": {"tokenFile": "token"}}]
    credentials = load_credentials(kubeconfig(tmp_path, users=users), "", CLOCK)
    tokens = [await credentials.headers()]
    (tmp_path / "token").write_text("second\n")
    tokens.append(await credentials.headers())
    await asyncio.sleep(61)
    tokens.append(await credentials.headers())
    (tmp_path / "token").unlink()
    await asyncio.sleep(61)
    tokens.append(await credentials.headers())
    assert [dict(each)["Authorization"] for each in tokens] == [
        "Bearer first",
        "Bearer first",
        "Bearer second",
        "Bearer second",
    ]


def test_the_master_flag_overrides_the_server(tmp_path: Path) -> None:
    """With or without a scheme."""
    path = kubeconfig(tmp_path)
    assert (
        load_credentials(path, "10.0.0.1:8080", CLOCK).server == "http://10.0.0.1:8080"
    )
    assert load_credentials("", "https://h", CLOCK).server == "https://h"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    """Paths in a file are relative to that file."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = kubeconfig(tmp_path / "one", users=[])
    users = [{"name": "u", "user": {"tokenFile": "token"}}]
    clusters = [{"name": "c", "cluster": {"server": "https://other"}}]
    second = kubeconfig(tmp_path / "two", users=users, clusters=clusters)
    credentials = load_credentials(f"{first}:{second}", "", CLOCK)
    assert credentials.server == "https://127.0.0.1:6443"
    assert isinstance(credentials._source, TokenFile)
    assert credentials._source._path == tmp_path / "two" / "token"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-context": ""}, "no current-context is set; set one of: here"),
        ({"current-context": "gone"}, "there is no context 'gone'; there is: here"),
        ({"clusters": []}, "there is no cluster 'c'; there is: (none)"),
        ({"users": []}, "there is no user 'u'; there is: (none)"),
        (
            {"clusters": [{"name": "c", "cluster": {}}]},
            "the cluster of context 'here' names no server",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "ftp://x"}}]},
            "server 'ftp://x' is not a usable http:// or https:// URL",
        ),
        (
            {
                "clusters": [
                    {
                        "name": "c",
                        "cluster": {
                            "server": "https://x",
                            "certificate-authority": "absent.pem",
                        },
                    }
                ]
            },
            "absent.pem: No such file or directory",
        ),
        (
            {"users": [{"name": "u", "user": {"client-key-data": "%"}}]},
            "client-key-data is not base64",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """One line with the file, the culprit and what there is instead."""
    with pytest.raises(ConfigError) as caught:
        load_credentials(kubeconfig(tmp_path, **changes), "", CLOCK)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 2: not valid YAML"),
        ("- a\n", "its top level is no mapping"),
        ("# nothing", "the file is empty"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    """Not YAML, or not a mapping."""
    (tmp_path / "k").write_text(text + "\n")
    with pytest.raises(ConfigError, match=message):
        load_credentials(str(tmp_path / "k"), "", CLOCK)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(ConfigError, match=r"absent: No such file"):
        load_credentials(str(tmp_path / "absent"), "", CLOCK)


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    """When TLS is set up."""
    data = base64.b64encode(b"no certificate").decode()
    cluster = {"server": "https://x", "certificate-authority-data": data}
    path = kubeconfig(tmp_path, clusters=[{"name": "c", "cluster": cluster}])
    with pytest.raises(ConfigError, match="certificate-authority cannot be used"):
        load_credentials(path, "", CLOCK)


@pytest.mark.looptime
async def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server from the environment, token and CA from the mounted files."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(self_signed("ca", ["x"]).certificate)
    credentials = in_cluster(CLOCK, tmp_path)
    assert credentials.server == "https://[fd00::1]:443"
    assert await credentials.headers() == (("Authorization", "Bearer t"),)


def test_without_any_configuration_the_ways_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a user can give."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="give --kubeconfig PATH or --master URL"):
        in_cluster(CLOCK, tmp_path)
