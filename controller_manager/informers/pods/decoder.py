"""The decoder of the watch of pods: it decodes no spec that is known by its bytes.

Almost every change of a pod leaves its spec as it is. And the specs of the pods of one
owner differ by their nodes, and by the name of a volume with a token. So the bytes of a
spec are looked up before they are decoded; each is decoded and made smaller once.

Only the hashes of the bytes are remembered, with a secret before them: a spec may have
passwords, and a user must not be able to make two specs with the same hash.
"""

import os
import re
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from controller_manager.api.core.v1 import Pod, PodSpec
from controller_manager.client.rest.serializer import EventDecoder, WatchEvent
from controller_manager.informers.trimming import MAX_REMEMBERED

SPEC: Final = b',"spec":{'
"""The beginning of the bytes of a spec.

In valid JSON it is the beginning of a field of some object: no string has a quotation
mark without a backslash.
"""

_MAX_BYTES: Final = 64 * 1024
"""The bytes of a spec that is looked up at most."""

_TOKEN: Final = b"kube-api-access-"
"""The beginning of the name of the volume that the API server adds for the token."""

_TOKEN_OF_POD: Final = re.compile(rb'"(kube-api-access-[a-z0-9]{5})"')
_NODE: Final = b',"nodeName":"'
_NODE_OF_POD: Final = re.compile(rb',"nodeName":"([-.a-z0-9]+)"')

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


class _Alone(Struct, forbid_unknown_fields=True):
    """An object with a spec, and with no other field."""

    spec: PodSpec


_DECODER: Final = msgspec.json.Decoder(_Alone)
_ENCODER: Final = msgspec.json.Encoder()

_Base = tuple[int, int]
"""The hash of a spec without its node and token, and the place of its node."""


class SharedSpecs:
    """The specs of pods by their bytes, made smaller.

    All of them are forgotten once they are many.
    """

    def __init__(self, make_smaller: Callable[[PodSpec], PodSpec]) -> None:
        """Start without specs; `make_smaller` transforms a spec that is decoded."""
        self._make_smaller = make_smaller
        self._secret = os.urandom(16)
        self._by_bytes: dict[int, PodSpec] = {}
        self._bases: dict[_Base, PodSpec | None] = {}
        """The specs without a node; `None` for one that depends on the token."""
        self._bound: dict[tuple[_Base, bytes], PodSpec] = {}
        self._by_id: dict[int, PodSpec] = {}

    def has(self, spec: PodSpec) -> bool:
        """Tell whether this object is a shared spec, which must stay as it is."""
        return self._by_id.get(id(spec)) is spec

    def find(self, text: bytes) -> PodSpec | None:
        """Return the spec of these bytes, which begin with `SPEC`, made smaller.

        `None` if they are not exactly one field of an object, if the spec cannot be
        decoded or made smaller, or if it is very long.
        """
        key = hash(self._secret + text)
        spec = self._by_bytes.get(key)
        if spec is None and len(text) <= _MAX_BYTES:
            try:
                spec = self._made_of(text)
            except Exception:  # noqa: BLE001 - the pod is decoded as a whole
                # So the error is reported with the name of the pod.
                return None
            _remember(self._by_bytes, key, spec)
            _remember(self._by_id, id(spec), spec)
        return spec

    def _made_of(self, text: bytes) -> PodSpec:
        without_token = _without_token(text)
        rest, place, node = _without_node(without_token)
        key = hash(self._secret + rest), place
        if key in self._bases:
            base = self._bases[key]
        else:
            base = self._base_of(rest, without_token, node)
            _remember(self._bases, key, base)
        if base is None:
            return self._smaller(text)
        if not node:
            return base
        bound = self._bound.get((key, node))
        if bound is None:
            bound = self._make_smaller(replace(base, node_name=node.decode()))
            _remember(self._bound, (key, node), bound)
        return bound

    def _base_of(self, rest: bytes, text: bytes, node: bytes) -> PodSpec | None:
        """Return a spec without node and token, `None` if it depends on more."""
        base = self._smaller(rest)
        if node and (base.node_name or _decoded(text).node_name != node.decode()):
            return None
        return None if _TOKEN in _ENCODER.encode(base) else base

    def _smaller(self, text: bytes) -> PodSpec:
        return self._make_smaller(_decoded(text))


def _decoded(text: bytes) -> PodSpec:
    return _DECODER.decode(b"{%b}" % text[1:]).spec


def _without_token(text: bytes) -> bytes:
    """Return a spec whose volume with the token has the same name in all pods."""
    start = text.find(b'"' + _TOKEN)
    found = _TOKEN_OF_POD.match(text, start) if start >= 0 else None
    return text if found is None else text.replace(found[1], _TOKEN)


def _without_node(text: bytes) -> tuple[bytes, int, bytes]:
    """Return a spec without the name of its node, the place of the name, and the name.

    The name is empty if the spec has none.
    """
    start = text.find(_NODE)
    found = _NODE_OF_POD.match(text, start) if start >= 0 else None
    if found is None:
        return text, 0, b""
    return text[:start] + text[found.end() :], start, found[1]


def _remember(table: dict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    """Add an entry; forget all others once they are many."""
    if len(table) >= MAX_REMEMBERED:
        table.clear()
    table[key] = value


_STATUS: Final = b',"status":{'


class PodEventDecoder(EventDecoder[Pod]):
    """Decodes the lines of a watch of pods, whose specs are shared.

    A short spec takes the place of the long one before the line is decoded. It has a
    secret text, so that no other spec is taken for it: pods have fields, such as
    managedFields, in which another field may be called spec. A line for which this
    fails in any way is decoded as a whole, so errors are the same.
    """

    def __init__(self, specs: SharedSpecs) -> None:
        super().__init__(Pod)
        self._specs = specs
        self._mark = os.urandom(8).hex()
        self._marked = SPEC + b'"hostname":"%b"}' % self._mark.encode()

    def decode(self, line: bytes) -> WatchEvent[Pod]:
        """Return the event of one line; see `EventDecoder.decode`."""
        start, end = line.find(SPEC), line.rfind(_STATUS)
        if 0 < start < end:
            spec = self._specs.find(line[start:end])
            if spec is not None:
                marked = b"%b%b%b" % (line[:start], self._marked, line[end:])
                event = self._with_spec(marked, spec)
                if event is not None:
                    return event
        return super().decode(line)

    def _with_spec(self, marked: bytes, spec: PodSpec) -> WatchEvent[Pod] | None:
        """Return the event of a line, with this spec in the place of the mark.

        `None` if the mark is not in the place of the pod's spec.
        """
        try:
            event = self.decode_object(marked)
        except msgspec.DecodeError:
            return None
        if event.object.spec.hostname != self._mark:
            return None
        force_setattr(event.object, "spec", spec)
        return event
