"""Credentials go only to a server that is known: upstream's rules (clientcmd)."""

import base64
import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_manager.client.identity.credentials import Credentials, load_credentials
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger
from controller_manager.serving.certificates import self_signed
from tests.client.identity.test_credentials import kubeconfig
from tests.clusters import EPOCH

CLOCK = LoopClock(EPOCH)
_AUTHORITY = self_signed("ca", ["x"]).certificate


def _loaded(
    path: Path,
    server: str,
    user: dict[str, Any],
    master: str = "",
    log: io.StringIO | None = None,
    **cluster: Any,
) -> Credentials:
    named = {key.replace("_", "-"): value for key, value in cluster.items()}
    file = kubeconfig(path, user, {"server": server, **named})
    logger = make_logger(stream=log) if log else None
    return load_credentials(file, master, CLOCK, logger=logger)


def _pair() -> dict[str, str]:
    pair = self_signed("a", ["x"])
    return {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }


def _exec(path: Path) -> dict[str, Any]:
    return {
        "command": "touch",
        "args": [str(path / "ran")],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
    }


def _users(path: Path) -> list[dict[str, Any]]:
    return [
        {"token": "secret"},
        {"tokenFile": str(path / "token")},
        {"username": "me", "password": "secret"},
        {"exec": _exec(path)},
        {"auth-provider": {"name": "oidc", "config": {"id-token": "secret"}}},
        _pair(),
    ]


@pytest.mark.parametrize("number", range(6))
async def test_over_plain_http_no_credentials_are_sent(
    tmp_path: Path, number: int
) -> None:
    """The server may be anybody; a log line says why it sees no user.

    No token file is read, and no plugin runs.
    """
    log = io.StringIO()
    user = _users(tmp_path)[number]
    credentials = _loaded(tmp_path, "http://10.0.0.1:8080", user, log=log)
    assert (await credentials.identity()).headers == ()
    assert await credentials.refresh(await credentials.identity()) is False
    assert not credentials.may_wait
    assert not (tmp_path / "ran").exists()
    (line,) = log.getvalue().splitlines()
    assert "Credentials are not sent: the server's URL is http://" in line
    assert "secret" not in line


async def test_the_master_flag_decides_about_credentials(tmp_path: Path) -> None:
    """Its address has no scheme by default, and then it is http://."""
    user = {"token": "secret"}
    masters = ("10.0.0.1:8080", "http://10.0.0.1", "https://10.0.0.1")
    sent = []
    for master in masters:
        loaded = _loaded(tmp_path, "https://a.example", user, master)
        sent.append((await loaded.identity()).authorization)
    assert sent == ["", "", "Bearer secret"]
    loaded = _loaded(tmp_path, "http://a.example", user, "https://10.0.0.1")
    assert (await loaded.identity()).authorization == "Bearer secret"


async def test_a_user_is_impersonated_over_plain_http(tmp_path: Path) -> None:
    """It is a wish and no secret, so upstream sends it, without credentials."""
    user = {"token": "secret", "as": "jane", "as-groups": ["a"]}
    log = io.StringIO()
    credentials = _loaded(tmp_path, "http://10.0.0.1:8080", user, log=log)
    assert (await credentials.identity()).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
    )
    assert len(log.getvalue().splitlines()) == 1


async def test_nothing_is_logged_if_there_are_no_credentials(tmp_path: Path) -> None:
    log = io.StringIO()
    for user in ({}, {"as": "jane"}):
        _loaded(tmp_path, "http://10.0.0.1:8080", user, log=log)
    assert log.getvalue() == ""


@pytest.mark.parametrize("field", ["as-uid", "as-groups", "as-user-extra"])
async def test_groups_need_an_impersonated_user(tmp_path: Path, field: str) -> None:
    """A server would take them as a wish without a user."""
    value: Any = {"as-groups": ["a"], "as-user-extra": {"a": ["b"]}}.get(field, "7")
    with pytest.raises(ConfigError) as caught:
        _loaded(tmp_path, "https://10.0.0.1", {"token": "t", field: value})
    assert str(caught.value).endswith(
        "requesting uid, groups or user-extra without impersonating a user: give as"
    )


@pytest.mark.parametrize("is_file", [False, True])
async def test_an_authority_and_no_verification_contradict_each_other(
    tmp_path: Path, is_file: bool
) -> None:
    """The server would not be verified, though it could be."""
    (tmp_path / "ca.crt").write_bytes(_AUTHORITY)
    given: dict[str, Any] = {
        "certificate_authority_data": base64.b64encode(_AUTHORITY).decode()
    }
    if is_file:
        given = {"certificate_authority": "ca.crt"}
    for master in ("", "https://10.0.0.2"):
        with pytest.raises(ConfigError) as caught:
            _loaded(
                tmp_path,
                "https://10.0.0.1",
                {},
                master,
                insecure_skip_tls_verify=True,
                **given,
            )
        assert str(caught.value) == (
            f"kubeconfig {tmp_path / 'kubeconfig'}: specifying a root certificates "
            "file with the insecure flag is not allowed: take "
            "insecure-skip-tls-verify or certificate-authority out"
        )


async def test_without_tls_they_do_not_contradict_each_other(tmp_path: Path) -> None:
    data = base64.b64encode(_AUTHORITY).decode()
    insecure: dict[str, Any] = {"insecure_skip_tls_verify": True}
    for server, authority in (("http://10.0.0.1", data), ("https://10.0.0.1", "")):
        given = {**insecure, "certificate_authority_data": authority}
        assert _loaded(tmp_path, server, {}, **given).server == server


async def test_the_master_flag_drops_the_servers_name(tmp_path: Path) -> None:
    names = [
        _loaded(
            tmp_path, "https://10.0.0.1", {}, master, tls_server_name="api.example"
        ).tls_server_name
        for master in ("", "https://10.0.0.2")
    ]
    assert names == ["api.example", None]


async def test_a_plugin_is_told_of_the_server(tmp_path: Path) -> None:
    section = _exec(tmp_path) | {
        "command": "sh",
        "args": ["-c", f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path / "info"}; exit 1'],
        "provideClusterInfo": True,
    }
    credentials = _loaded(
        tmp_path,
        "https://10.0.0.1",
        {"exec": section},
        "https://10.0.0.2",
        tls_server_name="api.example",
    )
    with pytest.raises(ConfigError, match="sh exited with 1"):
        await credentials.identity()
    info = yaml.safe_load((tmp_path / "info").read_text())
    assert info["spec"]["cluster"] == {"server": "https://10.0.0.2"}


@pytest.mark.parametrize(
    ("server", "name", "expected"),
    [
        ("https://api.example.", None, "api.example"),
        ("https://api.example.:6443", None, "api.example"),
        ("https://10.0.0.1", "api.example.", "api.example"),
        ("https://api.example", None, None),
    ],
)
async def test_a_certificate_needs_no_trailing_dot(
    tmp_path: Path, server: str, name: str | None, expected: str | None
) -> None:
    loaded = _loaded(tmp_path, server, {}, tls_server_name=name)
    assert (loaded.server, loaded.tls_server_name) == (server, expected)
    assert loaded.anonymous().tls_server_name == expected
