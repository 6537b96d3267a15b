"""The specs of watched pods are decoded once, and the pods are as if decoded afresh."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.v1 import PODS, Pod, PodSpec
from controller_manager.client.rest.errors import ProtocolError
from controller_manager.client.rest.serializer import Bookmark, Deleted, EventDecoder
from controller_manager.informers.pods import PodEventDecoder, PodTransform, SharedSpecs
from controller_manager.informers.reads import MAX_REMEMBERED, Reads
from controller_manager.informers.transforms import decoder_for, transform_for
from controller_manager.registry import registry

_TRICKY: Final = (
    ',"spec":{"nodeName":"a"},"status":{',
    ',"nodeName":"b"',
    "kube-api-access-abcde",
    'kube-api-access-"',
    "b",
)
_NAMES: Final = st.sampled_from(("a", *_TRICKY))
_NODES: Final = st.sampled_from(("a", "b", "B", 'x"y', "ä"))
_TOKENS: Final = st.sampled_from(("kube-api-access-abcde", "kube-api-access-fghij"))


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with some of these fields, in any order."""
    whole = st.fixed_dictionaries({}, optional=fields)
    return whole.flatmap(lambda it: st.permutations(list(it.items())).map(dict))


def _list(of: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, min_size=1, max_size=2)


_LABELS: Final = st.dictionaries(
    st.sampled_from(("nodeName", "spec", "a")), _NAMES, max_size=2
)
_RESOURCES: Final = st.sampled_from(({}, {"requests": {"cpu": "1"}}))
_LABEL: Final = _some(
    seLinuxOptions=st.sampled_from(({}, {"level": "s0"}, {"level": "s1"}))
)
_CONTAINER: Final = _some(
    name=_NAMES,
    image=_NAMES,
    env=_list(_some(name=_NAMES, value=_NAMES)),
    resources=_RESOURCES,
    ports=_list(_some(name=_NAMES, containerPort=st.just(80))),
    volumeMounts=_list(_some(name=st.one_of(_TOKENS, _NAMES))),
    securityContext=_LABEL,
)
_TEMPLATE: Final = _some(
    metadata=_some(labels=_LABELS), spec=_some(nodeName=_NODES, size=_NAMES)
)
_VOLUME: Final = st.one_of(
    st.fixed_dictionaries({"name": _TOKENS, "projected": st.just({})}),
    st.fixed_dictionaries(
        {"name": _NAMES, "ephemeral": _some(volumeClaimTemplate=_TEMPLATE)}
    ),
    st.fixed_dictionaries(
        {"name": _TOKENS, "persistentVolumeClaim": _some(claimName=_TOKENS)}
    ),
)
_AFFINITY: Final[st.SearchStrategy[Any]] = st.just(
    {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
)
_SPEC: Final = _some(
    volumes=_list(_VOLUME),
    containers=_list(_CONTAINER),
    initContainers=_list(_CONTAINER),
    ephemeralContainers=_list(_CONTAINER),
    securityContext=_LABEL,
    nodeName=_NODES,
    hostname=_NAMES,
    tolerations=_list(_some(key=_NAMES)),
    affinity=_AFFINITY,
    unknown=_some(nodeName=_NODES, status=st.just({"phase": "a"})),
)
_STATUS: Final = _some(
    phase=_NAMES,
    status=st.just({"a": "b"}),
    conditions=_list(
        _some(type=st.sampled_from(("PodResizePending", "Ready", "Other")))
    ),
    containerStatuses=_list(_some(name=_NAMES, resources=_RESOURCES)),
)
_METADATA: Final = _some(
    name=_NAMES,
    labels=_LABELS,
    annotations=_LABELS,
    managedFields=st.just([{"a": 1, "spec": {"nodeName": "a"}, "status": {}}]),
    finalizers=_list(_NAMES),
)
_POD: Final = _some(kind=st.just("Pod"), metadata=_METADATA, spec=_SPEC, status=_STATUS)
_EVENT: Final = st.tuples(st.sampled_from(("ADDED", "MODIFIED", "DELETED")), _POD)

_EVERY_READ: Final = tuple(
    each
    for descriptor in registry().descriptors
    for each in descriptor.reads
    if each.resource == PODS
)
_SOME_READS: Final = (
    Reads(PODS, "spec.nodeName", "spec.affinity", "spec.volumes", "status.phase"),
)


def line_of(kind: str, pod: dict[str, Any]) -> bytes:
    event = {"type": kind, "object": pod}
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def transform_of(reads: tuple[Reads, ...]) -> PodTransform:
    transform = transform_for(PODS, reads)
    assert isinstance(transform, PodTransform)
    return transform


def decoder_of(transform: PodTransform) -> EventDecoder[Pod]:
    decoder = decoder_for(transform)
    assert isinstance(decoder, PodEventDecoder)
    return decoder


@given(
    reads=st.sampled_from(((), _EVERY_READ, _SOME_READS)),
    events=st.lists(_EVENT, min_size=1, max_size=3),
    order=st.data(),
)
def test_a_pod_is_the_same_as_if_it_was_decoded_alone(
    reads: tuple[Reads, ...],
    events: list[tuple[str, dict[str, Any]]],
    order: st.DataObject,
) -> None:
    transform = transform_of(reads)
    decoder = decoder_of(transform)
    played = order.draw(st.lists(st.sampled_from(events), min_size=1, max_size=8))
    for kind, pod in played:
        line = line_of(kind, pod)
        expected, found = EventDecoder(Pod).decode(line), decoder.decode(line)
        assert not isinstance(expected, Bookmark)
        assert not isinstance(found, Bookmark)
        transform_of(reads)(expected.object)
        transform(found.object)
        assert found == expected


def pod(number: int = 0, node: str = "", **spec: Any) -> dict[str, Any]:
    token = f"kube-api-access-{number:05}"
    container = {"name": "web", "volumeMounts": [{"name": token}]}
    bound = {"nodeName": node} if node else {}
    return {
        "metadata": {"name": f"p-{number}", "uid": str(number)},
        "spec": {
            "volumes": [{"name": token, "projected": {}}],
            "containers": [container],
            **bound,
            "tolerations": [{"key": "a"}],
            **spec,
        },
        "status": {"phase": "Running"},
    }


def specs_of(decoder: EventDecoder[Pod], *pods: dict[str, Any]) -> list[PodSpec]:
    found = []
    for each in pods:
        event = decoder.decode(line_of("MODIFIED", each))
        assert not isinstance(event, Bookmark)
        found.append(event.object.spec)
    return found


def test_pods_that_differ_by_their_tokens_only_share_one_spec() -> None:
    decoder = decoder_of(transform_of(_EVERY_READ))
    one, two, far, unbound = specs_of(
        decoder, pod(1, "a"), pod(2, "a"), pod(3, "b"), pod(4)
    )
    assert one is two
    assert far.containers is one.containers
    assert [each.node_name for each in (one, far, unbound)] == ["a", "b", ""]


def test_a_spec_that_keeps_the_name_of_its_token_is_not_shared() -> None:
    """Its bytes equal those of another one only without that name."""
    decoder = decoder_of(transform_of(()))
    one, two, again = specs_of(decoder, pod(1, "a"), pod(2, "a"), pod(1, "a"))
    assert one.containers != two.containers
    assert one is again


def test_a_known_spec_is_not_decoded_again() -> None:
    """Not even for a pod that is deleted."""
    made: list[PodSpec] = []

    def keep(spec: PodSpec) -> PodSpec:
        made.append(spec)
        return spec

    decoder = PodEventDecoder(SharedSpecs(keep))
    first = decoder.decode(line_of("ADDED", pod(1)))
    assert made
    made.clear()
    last = decoder.decode(line_of("DELETED", pod(1)))
    assert isinstance(last, Deleted)
    assert not isinstance(first, Bookmark)
    assert (last.object, last.object.spec is first.object.spec) == (first.object, True)
    assert made == []


def test_the_specs_that_are_remembered_are_few() -> None:
    specs = SharedSpecs(lambda spec: spec)
    texts = [b',"spec":{"hostname":"%d"}' % each for each in range(MAX_REMEMBERED + 2)]
    made = [specs.find(text) for text in texts]
    known = [each for each in made if each is not None and specs.has(each)]
    assert [each and each.hostname for each in made[-2:]] == ["4096", "4097"]
    assert known == made[-2:]


@pytest.mark.parametrize(
    "text",
    [
        b',"spec":{"nodeName":1}',
        b',"spec":{"hostname":"a"},"other":{}',
        b',"spec":{"hostname":"a"',
        b',"spec":{"hostname":"a"}}',
        b',"spec":{"hostname":"%b"}' % (70_000 * b"a"),
    ],
)
def test_bytes_that_are_no_short_spec_have_no_shared_spec(text: bytes) -> None:
    assert SharedSpecs(lambda spec: spec).find(text) is None


def _broken(**changes: Any) -> dict[str, Any]:
    return {**pod(1), **changes}


@pytest.mark.parametrize(
    "broken",
    [
        _broken(spec={"containers": 1}),
        _broken(status={"phase": 1}),
        _broken(metadata={"name": {}}),
    ],
)
def test_an_undecodable_pod_has_the_usual_error(broken: dict[str, Any]) -> None:
    line = line_of("MODIFIED", broken)
    decoder = decoder_of(transform_of(_EVERY_READ))
    found = [error_of(each.decode, line) for each in (EventDecoder(Pod), decoder)]
    assert found[0] == found[1]
    assert specs_of(decoder, pod(1, "a"))[0].node_name == "a"


def error_of(decode: Callable[[bytes], Any], line: bytes) -> str:
    with pytest.raises(ProtocolError) as raised:
        decode(line)
    return str(raised.value)


def test_a_spec_that_breaks_the_transform_is_decoded_with_its_pod() -> None:
    def fail(spec: PodSpec) -> PodSpec:
        raise LookupError(spec.hostname)

    decoder = PodEventDecoder(SharedSpecs(fail))
    (spec,) = specs_of(decoder, pod(1, "a", hostname="h"))
    assert spec == msgspec.convert(pod(1, "a", hostname="h")["spec"], PodSpec)
