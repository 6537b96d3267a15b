"""Events are written without blocking a controller."""

import asyncio
import io
import json
import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import (
    EVENTS,
    PODS,
    Event,
    EventSource,
    ObjectReference,
    Pod,
    PodMeta,
)
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.rbac.v1 import CLUSTER_ROLES, ClusterRole
from controller_manager.client.events.correlator import COMBINED, Correlated, Correlator
from controller_manager.client.events.recorder import (
    NORMAL,
    WARNING,
    EventBroadcaster,
    is_dns_subdomain,
)
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import make_logger, silent_logger
from tests.clusters import EPOCH, Cluster

pytestmark = pytest.mark.looptime


POD = Pod(
    metadata=PodMeta(name="a", namespace="default", uid="u", resource_version="5")
)


def broadcaster_of(
    cluster: Cluster, stream: io.StringIO | None = None
) -> EventBroadcaster:
    return EventBroadcaster(
        cluster.client,
        "test-controller",
        clock=cluster.clock,
        rng=cluster.rng,
        logger=make_logger(stream=stream) if stream is not None else silent_logger(),
    )


@pytest_asyncio.fixture
async def recorder(cluster: Cluster) -> AsyncGenerator[EventBroadcaster, None]:
    broadcaster = broadcaster_of(cluster)
    task = asyncio.create_task(broadcaster.run())
    yield broadcaster
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def stored(cluster: Cluster) -> list[Event]:
    return (await cluster.client.list_page(EVENTS)).items


@pytest.mark.parametrize(("verbosity", "logged"), [(2, 0), (3, 1)])
async def test_an_event_is_logged_at_verbosity_3(
    cluster: Cluster, verbosity: int, logged: int
) -> None:
    log = io.StringIO()
    broadcaster = EventBroadcaster(
        cluster.client,
        "test-controller",
        clock=cluster.clock,
        rng=cluster.rng,
        logger=make_logger(output="json", verbosity=verbosity, stream=log),
    )
    broadcaster.event(PODS, POD, "Normal", "Started", "It runs")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(lines) == logged
    for line in lines:
        del line["ts"], line["caller"]
        assert line == {
            "v": 3,
            "msg": "Event occurred",
            "object": "default/a",
            "fieldPath": "",
            "kind": "Pod",
            "apiVersion": "v1",
            "type": "Normal",
            "reason": "Started",
            "message": "It runs",
        }


async def test_an_event_has_all_fields_that_kubectl_shows(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    recorder.event(PODS, POD, NORMAL, "Done", "It is done")
    await recorder.flush()
    (event,) = await stored(cluster)
    metadata = event.metadata
    assert event == Event(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace="default",
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp="2026-01-01T00:00:00Z",
        ),
        involved_object=ObjectReference(
            kind="Pod",
            namespace="default",
            name="a",
            uid="u",
            api_version="v1",
            resource_version="5",
        ),
        reason="Done",
        message="It is done",
        source=EventSource(component="test-controller"),
        first_timestamp="2026-01-01T00:00:00Z",
        last_timestamp="2026-01-01T00:00:00Z",
        count=1,
        type="Normal",
        reporting_component="test-controller",
    )
    assert metadata.name.startswith("a.")


UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
HEX_TIME = "[0-9a-f]{16}"


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a" * 236, f"a{{236}}.{HEX_TIME}"),
        ("a" * 237, UUID4),
        ("a" * 253, UUID4),
        ("system:node:x", UUID4),
        ("Upper", UUID4),
        ("-a", UUID4),
        ("a.b-c", rf"a\.b-c\.{HEX_TIME}"),
    ],
)
async def test_an_event_has_a_name_that_the_api_server_accepts(
    cluster: Cluster, recorder: EventBroadcaster, name: str, pattern: str
) -> None:
    """A UUID, if the object's name and the time are none; its count grows, too."""
    role = ClusterRole(metadata=ObjectMeta(name=name, uid="u"))
    for _ in range(2):
        recorder.event(CLUSTER_ROLES, role, NORMAL, "Done", "x")
        await recorder.flush()
    (event,) = await stored(cluster)
    assert re.fullmatch(pattern, event.metadata.name)
    assert (event.involved_object.name, event.count) == (name, 2)


async def test_the_same_event_is_counted_up(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    for _ in range(3):
        recorder.event(PODS, POD, WARNING, "Bad", "again")
        await asyncio.sleep(10)
    (event,) = await stored(cluster)
    assert (event.count, event.first_timestamp, event.last_timestamp) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:20Z",
    )


async def test_equal_events_in_the_queue_are_written_once(
    recorder: EventBroadcaster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []
    request = cluster.transport.request

    async def counted(sent: Request) -> Response:
        writes.append(sent.method)
        await asyncio.sleep(0.1)
        return await request(sent)

    monkeypatch.setattr(cluster.transport, "request", counted)
    for _ in range(3):
        recorder.event(PODS, POD, WARNING, "Bad", "again")
    await asyncio.sleep(0.05)
    for _ in range(4):
        recorder.event(PODS, POD, WARNING, "Bad", "again")
    await recorder.flush()
    assert writes == ["POST", "PATCH"]
    (event,) = await stored(cluster)
    assert event.count == 7


async def test_an_event_that_expired_is_created_again(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    """A patch that finds no event is followed by a create."""
    recorder.event(PODS, POD, NORMAL, "Done", "x")
    await recorder.flush()
    (event,) = await stored(cluster)
    await cluster.client.delete(EVENTS, "default", event.metadata.name)
    recorder.event(PODS, POD, NORMAL, "Done", "x")
    await recorder.flush()
    (event,) = await stored(cluster)
    assert event.count == 2


async def test_an_unreachable_api_server_does_not_block_recording(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    handle = cluster.server.handle
    down = True

    async def sometimes(request: Request) -> Response:
        if down:
            msg = "connection refused"
            raise TransportError(msg)
        answer = await handle(request)
        assert isinstance(answer, Response)
        return answer

    cluster.server.handle = sometimes  # type: ignore[method-assign]
    recorder.event(PODS, POD, NORMAL, "Done", "x")
    await asyncio.sleep(35)
    down = False
    await recorder.flush()
    assert [event.message for event in await stored(cluster)] == ["x"]


async def test_a_refused_event_is_not_tried_again(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    """It is dropped, and those after it are written; so is one that cannot be sent."""
    for namespace in ("absent", "a/b"):
        elsewhere = Pod(metadata=PodMeta(name="b", namespace=namespace))
        recorder.event(PODS, elsewhere, NORMAL, "Done", "lost")
    recorder.event(PODS, POD, NORMAL, "Done", "kept")
    await recorder.flush()
    assert [event.message for event in await stored(cluster)] == ["kept"]
    assert asyncio.get_running_loop().time() == 0


async def write_all(broadcaster: EventBroadcaster) -> None:
    task = asyncio.create_task(broadcaster.run())
    await broadcaster.flush()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def pod_called(name: str) -> Pod:
    return Pod(metadata=PodMeta(name=name, namespace="default", uid=name))


async def test_a_flood_is_dropped_rather_than_kept(cluster: Cluster) -> None:
    """1,000 events wait; the log has the first that is dropped, then their number."""
    log = io.StringIO()
    broadcaster = broadcaster_of(cluster, log)
    for number in range(1500):
        broadcaster.event(PODS, pod_called(f"pod-{number}"), NORMAL, "Done", "x")
    await write_all(broadcaster)
    names = [each.involved_object.name for each in await stored(cluster)]
    assert sorted(names) == sorted(f"pod-{number}" for number in range(1000))
    first, last = log.getvalue().splitlines()
    assert first.endswith('"Event dropped, too many wait" reason="Done"')
    assert last.endswith('"Events were dropped, too many waited" events=500')


async def test_events_that_are_too_frequent_take_no_room(cluster: Cluster) -> None:
    broadcaster = broadcaster_of(cluster)
    for number in range(1500):
        broadcaster.event(PODS, POD, NORMAL, "Done", str(number))
    broadcaster.event(PODS, pod_called("other"), NORMAL, "Done", "x")
    await write_all(broadcaster)
    events = await stored(cluster)
    counts = [(each.involved_object.name, each.count) for each in events]
    assert sorted(counts) == [*([("a", 1)] * 9), ("a", 16), ("other", 1)]


# The correlator without a broadcaster


def event(message: str = "m", name: str = "a", reason: str = "R") -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{name}.1", namespace="n"),
        involved_object=ObjectReference(kind="Pod", namespace="n", name=name),
        source=EventSource(component="c"),
        reason=reason,
        type="Normal",
        message=message,
        count=1,
    )


async def test_similar_events_share_one_event_from_the_tenth_on() -> None:
    correlator = Correlator(LoopClock(EPOCH))
    written = [correlator.correlate(event(f"m{n}")) for n in range(12)]
    messages = [each.event.message for each in written if each]
    assert messages == [f"m{n}" for n in range(9)] + [
        f"{COMBINED}m{n}" for n in (9, 10, 11)
    ]
    assert [each.event.count for each in written if each][-3:] == [1, 2, 3]
    assert [bool(each.patch) for each in written if each][-3:] == [False, True, True]


async def test_events_are_no_longer_similar_after_ten_quiet_minutes() -> None:
    correlator = Correlator(LoopClock(EPOCH))
    for number in range(9):
        correlator.correlate(event(f"m{number}"))
    await asyncio.sleep(601)
    correlated = correlator.correlate(event("later"))
    assert correlated is not None
    assert correlated.event.message == "later"


async def test_a_spammer_gets_25_events_then_one_in_five_minutes() -> None:
    correlator = Correlator(LoopClock(EPOCH))
    passed = [correlator.correlate(event()) is not None for _ in range(30)]
    assert passed == [True] * 25 + [False] * 5
    assert correlator.correlate(event(name="other")) is not None
    await asyncio.sleep(301)
    assert correlator.correlate(event()) is not None
    assert correlator.correlate(event()) is None


# Defects


async def test_an_event_that_cannot_be_handled_is_dropped_alone(
    cluster: Cluster, recorder: EventBroadcaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    correlate, write = Correlator.correlate, EventBroadcaster._write

    def fail_for(name: str, written: Event) -> None:
        if written.involved_object.name == name:
            raise KeyError(name)

    def correlate_most(self: Correlator, recorded: Event) -> Correlated | None:
        fail_for("odd", recorded)
        return correlate(self, recorded)

    async def write_most(self: EventBroadcaster, correlated: Correlated) -> Event:
        fail_for("strange", correlated.event)
        return await write(self, correlated)

    monkeypatch.setattr(Correlator, "correlate", correlate_most)
    monkeypatch.setattr(EventBroadcaster, "_write", write_most)
    for name in ("odd", "a", "strange", "b"):
        metadata = PodMeta(name=name, namespace="default", uid=name)
        recorder.event(PODS, Pod(metadata=metadata), NORMAL, "Done", name)
    async with asyncio.timeout(1):
        await recorder.flush()
    assert [event.message for event in await stored(cluster)] == ["a", "b"]


async def test_recording_an_event_never_fails(
    cluster: Cluster, recorder: EventBroadcaster
) -> None:
    recorder.event(PODS, None, NORMAL, "Done", "no object")  # type: ignore[arg-type]
    recorder.event(PODS, POD, NORMAL, "Done", "kept")
    async with asyncio.timeout(1):
        await recorder.flush()
    assert [event.message for event in await stored(cluster)] == ["kept"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", True),
        ("0", True),
        ("a-b.c-d.0", True),
        ("a" * 253, True),
        ("a" * 254, False),
        ("", False),
        ("a.", False),
        (".a", False),
        ("a..b", False),
        ("a.-b", False),
        ("a-.b", False),
        ("A", False),
        ("ä", False),
        ("a_b", False),
        ("system:node:x", False),
        ("a\n", False),
    ],
)
def test_a_dns_subdomain_is_recognised(name: str, expected: bool) -> None:
    assert is_dns_subdomain(name) is expected
