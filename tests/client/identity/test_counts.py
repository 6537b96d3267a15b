"""The counts of connections that no request shows."""

from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.identity.credentials import (
    ConnectionCounts,
    load_credentials,
)
from controller_manager.client.identity.kubeconfig import ConfigError
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Response
from controller_manager.clock import LoopClock
from controller_manager.observability.connections import ConnectionCollectors
from controller_manager.observability.metrics.client import ClientCollectors
from controller_manager.serving.certificates import self_signed
from tests.client.identity.test_credentials import Plugin, kubeconfig
from tests.client.rest.test_client import Scripted
from tests.clusters import EPOCH


@pytest.mark.parametrize(
    ("script", "counted"),
    [
        ("", {}),
        ("exit 3", {("3", "plugin_execution_error"): 1}),
        (None, {("1", "plugin_not_found_error"): 1}),
    ],
)
async def test_calls_of_a_plugin_are_counted_by_their_exit_code(
    tmp_path: Path, script: str | None, counted: dict[tuple[str, str], int]
) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers("t", 3600)
    credentials = plugin.credentials()
    assert credentials.counts().plugin_calls == Counter()
    if script:
        plugin.does(script)
    if script is None:
        plugin.script.unlink()
    if script == "":
        await credentials.identity()
        assert credentials.counts().plugin_calls == {("0", "no_error"): 1}
    else:
        with pytest.raises(ConfigError):
            await credentials.identity()
        assert credentials.counts().plugin_calls == counted


@pytest.mark.looptime
async def test_reloads_of_the_authorities_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(self_signed("a", ["x"]).certificate)
    cluster = {"server": "https://h", "certificate-authority": "ca.crt"}
    clusters = [{"name": "c", "cluster": cluster}]
    path = kubeconfig(tmp_path, clusters=clusters)
    credentials = load_credentials(path, "", LoopClock(EPOCH))
    counts = [dict(credentials.counts().reloads)]
    for content in (None, self_signed("b", ["x"]).certificate, b" ", b"garbage"):
        if content is not None:
            file.write_bytes(content)
        credentials._tls.check()
        counts.append(dict(credentials.counts().reloads))
    file.unlink()
    credentials._tls.check()
    expected = {
        ("success", "unchanged"): 1,
        ("success", "updated"): 1,
        ("failure", "empty"): 1,
        ("failure", "ca_parse_error"): 1,
        ("failure", "read_error"): 1,
    }
    assert counts == [dict(list(expected.items())[:number]) for number in range(5)]
    assert credentials.counts().reloads == expected


@pytest.mark.looptime
async def test_retries_are_counted_by_the_answer_that_caused_them() -> None:
    refusal = Response(429, {"retry-after": "3"}, b"{}")
    well = Response(200, {}, b"{}")
    lost = TransportError("lost")
    registry = CollectorRegistry()
    client = Client(
        Scripted(refusal, refusal, lost, lost, refusal, well),
        LoopClock(EPOCH),
        metrics=ClientCollectors(registry, "h"),
    )
    with pytest.raises(TransportError):
        await client.delete(PODS, "default", "a")
    await client.get(PODS, "default", "a")
    text = generate_latest(registry).decode()
    assert [
        line
        for line in text.splitlines()
        if line.startswith("rest_client_request_retries_total")
    ] == [
        'rest_client_request_retries_total{code="429",host="h",verb="DELETE"} 2.0',
        'rest_client_request_retries_total{code="<error>",host="h",verb="GET"} 1.0',
        'rest_client_request_retries_total{code="429",host="h",verb="GET"} 1.0',
    ]


def test_counts_of_several_credentials_are_added_and_shown() -> None:
    first = ConnectionCounts(Counter({("0", "no_error"): 2}))
    second = ConnectionCounts(
        Counter({("0", "no_error"): 1}), Counter({("success", "updated"): 4})
    )
    both = first.plus(second)
    registry = CollectorRegistry()
    ConnectionCollectors(registry, lambda: both.plugin_calls, lambda: both.reloads)
    plugin = {"code": "0", "call_status": "no_error"}
    reload = {"result": "success", "reason": "updated"}
    policy = {"allowed": "true", "denied": "false"}
    assert (
        registry.get_sample_value("rest_client_exec_plugin_call_total", plugin),
        registry.get_sample_value("rest_client_exec_plugin_policy_call_total", policy),
        registry.get_sample_value("rest_client_transport_ca_reload_total", reload),
    ) == (3, 3, 4)
