"""Faults, as a client sees them."""

import http.client
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.testing import (
    ClusterError,
    ClusterSettings,
    DevelopmentCluster,
    Faults,
)
from controller_manager.devcluster.testing.requests import make_filter
from tests.devcluster.rows import rows
from tests.devcluster.testing.calls import Caller, Events

MAPS = "/api/v1/namespaces/default/configmaps"
SETTINGS = ClusterSettings(nodes=0, controllers=())


@pytest.fixture(scope="module")
def running() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def faults(
    running: DevelopmentCluster, caplog: pytest.LogCaptureFixture
) -> Iterator[Faults]:
    """Return the faults; they leave nothing in the log of the tests."""
    made = running.faults
    yield made
    made.clear()
    assert [each.getMessage() for each in caplog.get_records("call")] == []


@pytest.fixture
def caller(running: DevelopmentCluster) -> Iterator[Caller]:
    made = Caller(running.kubeconfig)
    yield made
    made.send("DELETE", MAPS)


def test_too_many_requests_are_refused_as_upstream_refuses_them(
    faults: Faults, caller: Caller
) -> None:
    faults.too_many_requests(retry_after=7, times=1)
    refused, answered = caller.get("/version"), caller.get("/version")
    assert (refused.status, refused.headers["retry-after"], refused.body) == (
        429,
        "7",
        "Too many requests, please try again later.\n",
    )
    assert answered.status == 200


def test_a_conflict_names_the_object_and_meets_only_changes(
    faults: Faults, caller: Caller
) -> None:
    made = caller.add("ConfigMap", MAPS, "a").body
    fault = faults.conflict(resource="configmaps")
    refused = caller.send("PUT", f"{MAPS}/a", made)
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Operation cannot be fulfilled on configmaps "a": the object has '
        "been modified; please apply your changes to the latest version and try again",
        "reason": "Conflict",
        "details": {"name": "a", "kind": "configmaps"},
        "code": 409,
    }
    assert caller.get(f"{MAPS}/a").status == 200
    assert fault.count == 1
    fault.remove()
    assert caller.send("PUT", f"{MAPS}/a", made).status == 200


def test_a_client_that_continues_from_an_old_version_must_list_again(
    faults: Faults, caller: Caller
) -> None:
    version = caller.get(MAPS).body["metadata"]["resourceVersion"]
    fault = faults.expired(resource="configmaps")
    assert caller.get(f"{MAPS}?continue=x").reason == (410, "Expired")
    with caller.watch(f"{MAPS}?resourceVersion={version}") as events:
        (event,) = events
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert caller.get(MAPS).status == 200
    assert fault.count == 2


def test_any_status_can_be_the_answer(faults: Faults, caller: Caller) -> None:
    with faults.refuse(503, "the etcd cluster has no leader"):
        refused = caller.get(MAPS)
    assert (*refused.reason, refused.body["message"]) == (
        503,
        "ServiceUnavailable",
        "the etcd cluster has no leader",
    )
    assert caller.get(MAPS).status == 200


@pytest.mark.parametrize(("carried_out", "left"), [(False, []), (True, ["a"])])
def test_a_cut_connection_does_not_tell_the_result(
    faults: Faults, caller: Caller, carried_out: bool, left: list[str]
) -> None:
    faults.cut(carried_out=carried_out, times=1, verbs="create")
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        caller.add("ConfigMap", MAPS, "a")
    assert caller.names(MAPS) == left


def test_latency_delays_selected_requests(faults: Faults, caller: Caller) -> None:
    fault = faults.latency(0.2, verbs="list", resource="configmaps")
    caller.get("/version")
    began = time.monotonic()
    caller.get(MAPS)
    assert time.monotonic() - began >= 0.2
    assert fault.count == 1


def test_faults_apply_in_their_order(faults: Faults, caller: Caller) -> None:
    first = faults.refuse(500, times=1)
    second = faults.refuse(503, times=1)
    codes = [caller.get(MAPS).status for _ in range(3)]
    assert codes == [500, 503, 200]
    assert [first.count, second.count] == [1, 1]
    assert [first.is_active, second.is_active] == [False, False]


def test_clear_removes_all_faults(faults: Faults, caller: Caller) -> None:
    fault = faults.refuse(500)
    faults.clear()
    assert caller.get(MAPS).status == 200
    assert not fault.is_active


@rows("which", "method", "path", "selected")
def test_keywords_select_requests(
    which: Any, method: str, path: str, selected: bool
) -> None:
    plain, _, query = path.partition("?")
    pairs = tuple(parse_qsl(query))
    headers = {"user-agent": "tests/1"}
    request = Request(method, plain, query=pairs, headers=headers)
    assert make_filter(which).matches(request) is selected


def test_a_verb_that_does_not_exist_is_named(faults: Faults) -> None:
    with pytest.raises(ClusterError) as raised:
        faults.latency(1, verbs=("get", "post"))
    assert str(raised.value) == (
        "verbs: there is no verb 'post'; the verbs are create, delete, "
        "deletecollection, get, list, patch, update, watch"
    )


def test_a_keyword_that_does_not_exist_is_named(faults: Faults) -> None:
    with pytest.raises(TypeError, match="'verb'"):
        faults.latency(1, verb="get")  # type: ignore[call-arg]


# Watches


def opened(events: Events, caller: Caller, name: str) -> None:
    """Create an object and wait for its event, so that the watch is open."""
    caller.add("ConfigMap", MAPS, name)
    assert next(events)["object"]["metadata"]["name"] == name


def test_a_watch_is_cut(faults: Faults, caller: Caller) -> None:
    with caller.watch(MAPS) as events:
        opened(events, caller, "a")
        assert faults.drop_watches(resource="pods") == 0
        assert faults.drop_watches(resource="configmaps") == 1
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            next(events)


def test_a_watch_ends_in_good_order(faults: Faults, caller: Caller) -> None:
    with caller.watch(MAPS) as events:
        opened(events, caller, "a")
        assert faults.drop_watches(cut=False) == 1
        assert list(events) == []


def test_a_watch_that_expires_cannot_be_resumed(faults: Faults, caller: Caller) -> None:
    version = caller.get(MAPS).body["metadata"]["resourceVersion"]
    path = f"{MAPS}?resourceVersion={version}"
    with caller.watch(path) as events:
        opened(events, caller, "a")
        assert faults.expire_watches(resource="configmaps") == 1
        (last,) = events
    with caller.watch(path) as events:
        (again,) = events
    assert last == again
    assert (last["type"], last["object"]["reason"]) == ("ERROR", "Expired")
    assert last["object"]["message"].startswith(
        f"too old resource version: {version} ("
    )


def test_a_silent_watch_brings_nothing_and_stays_open(
    faults: Faults, caller: Caller
) -> None:
    with caller.watch(MAPS) as events:
        opened(events, caller, "a")
        assert faults.silence_watches() == 1
        assert caller.add("ConfigMap", MAPS, "b").status == 201
        events.wait_at_most(0.3)
        with pytest.raises(TimeoutError):
            next(events)


# The server


@pytest.mark.parametrize("with_watch", [False, True])
def test_a_restart_keeps_objects_and_forgets_the_history(
    faults: Faults, caller: Caller, with_watch: bool
) -> None:
    version = caller.get(MAPS).body["metadata"]["resourceVersion"]
    with caller.watch(MAPS) as events:
        opened(events, caller, "a")
        if not with_watch:
            faults.drop_watches(cut=False)
        faults.restart()
    assert caller.names(MAPS) == ["a"]
    with caller.watch(f"{MAPS}?resourceVersion={version}") as events:
        assert next(events)["type"] == "ERROR"


def test_an_outage_refuses_connections(faults: Faults, caller: Caller) -> None:
    with faults.outage(), pytest.raises(ConnectionRefusedError):
        caller.get(MAPS)
    assert caller.get(MAPS).status == 200


def test_no_other_process_gets_the_port_during_an_outage(
    running: DevelopmentCluster, faults: Faults
) -> None:
    port = int(running.url.rpartition(":")[2])
    with (
        faults.outage(),
        faults.outage(),
        socket.socket() as other,
        pytest.raises(OSError, match="Address already in use"),
    ):
        other.bind(("127.0.0.1", port))


def test_a_restart_with_a_downtime_does_not_wait(
    faults: Faults, caller: Caller
) -> None:
    faults.restart(downtime=0.2)
    with pytest.raises(ConnectionRefusedError):
        caller.get(MAPS)
    wait_until(lambda: succeeds(caller))


def test_clear_ends_a_downtime(faults: Faults, caller: Caller) -> None:
    faults.restart(downtime=3600)
    faults.clear()
    assert caller.get(MAPS).status == 200


def succeeds(caller: Caller) -> bool:
    try:
        return caller.get(MAPS).status == 200
    except ConnectionRefusedError:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
