"""Names for what a server generates, the same in every run.

Generated names read ``PREFIX*``, hashes ``HASH1``, ``HASH2`` … in the order in which
they are learned, uids ``UID:Kind/name``, a cron job's jobs ``NAME-MINUTE``, times
``TIME``, and every value that a recording masks ``ANY``.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from controller_manager.api.json_objects import JSON

_HASH_LABELS: Final = (
    "pod-template-hash",
    "controller-revision-hash",
    "controller.kubernetes.io/hash",
)
_REVISION: Final = "deployment.kubernetes.io/revision"
_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_MINUTES: Final = re.compile(r"-(29|3\d)\d{6}\b")
"""Minutes since 1970."""

_GENERATED: Final = re.compile(r"(HASH\d+)-[a-z0-9]{5}\b")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?"
    r"(Z| ?[+-]\d\d:?\d\d( [A-Z]+)?)"
)
_RFC1123: Final = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d "
    r"([+-]\d{4}|[A-Z]{3,4})"
)
_PEM: Final = re.compile(
    r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----(\\n)?", re.DOTALL
)


class Aliases:
    """The aliases of one run; a recording masks what matches its `mask`."""

    def __init__(self, mask: Sequence[str] = ()) -> None:
        self._mask = tuple(mask)
        self._names: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._uids: dict[str, str] = {}

    def learn(self, objects: Iterable[JSON]) -> None:
        """Give the generated names, hashes and uids in objects their aliases."""
        for each in sorted(objects, key=_age):
            metadata = each["metadata"]
            name = metadata["name"]
            for label in _HASH_LABELS:
                digest = metadata.get("labels", {}).get(label, "").rpartition("-")[2]
                if digest:
                    self._hashes.setdefault(digest, f"HASH{len(self._hashes) + 1}")
            if name not in self._names:
                self._learn_name(metadata)
            self._uids.setdefault(metadata["uid"], f"UID:{each['kind']}/{name}")

    def _learn_name(self, metadata: JSON) -> None:
        name, prefix = metadata["name"], metadata.get("generateName", "")
        if _is_of_stateful_set(metadata):
            # It has a prefix, but its name is not generated.
            self._names[name] = name
        elif prefix and name.startswith(prefix):
            self._names[name] = f"{self.apply(prefix)}*"

    def apply(self, text: str) -> str:
        """Replace all that has an alias, wherever it occurs."""
        for uid, alias in self._uids.items():
            text = text.replace(uid, alias)
        for name in sorted(self._names, key=len, reverse=True):
            text = text.replace(name, self._names[name])
        for digest, alias in self._hashes.items():
            text = re.sub(rf"(?<![a-z0-9]){digest}(?![a-z0-9])", alias, text)
        text = _MINUTES.sub("-MINUTE", text)
        text = _GENERATED.sub(r"\1-*", text)
        for pattern in self._mask:
            text = re.sub(pattern, "ANY", text)
        text = _PEM.sub(r"PEM:\1 ", text)
        return _TIME.sub(_time, _RFC1123.sub("TIME", text))


def _is_of_stateful_set(metadata: JSON) -> bool:
    owners = metadata.get("ownerReferences") or []
    return metadata.get("labels", {}).get(_POD_NAME) == metadata["name"] or any(
        each["kind"] == "StatefulSet" for each in owners
    )


def _age(obj: JSON) -> tuple[str, int, str]:
    metadata = obj["metadata"]
    annotations = metadata.get("annotations", {})
    revision = int(annotations.get(_REVISION, obj.get("revision", 0)))
    return metadata["creationTimestamp"], revision, metadata["name"]


def _time(found: re.Match[str]) -> str:
    """Return the alias of a time: one in a zone other than UTC shows its zone."""
    zone = found[2][:6]
    is_offset = re.match(r"[+-]\d\d:\d\d", zone) is not None
    return f"TIME{zone}" if is_offset and zone[1:] != "00:00" else "TIME"
