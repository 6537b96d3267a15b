"""Hashes and names of revisions (HashControllerRevision, ControllerRevisionName)."""

from typing import Final

from msgspec import Raw

from controller_manager.control.hashes import fnv1, safe_encode

HASH_LABEL: Final = "controller.kubernetes.io/hash"
"""The label with the hash of a stateful set's revision."""

POD_REVISION_LABEL: Final = "controller-revision-hash"
"""The label of a pod that names the revision of its template.

Its value is the name of the revision for a stateful set, and the hash alone for a
daemon set. Revisions of daemon sets have the label, too.
"""

_LONGEST_PREFIX: Final = 223


def data_hash(data: Raw, collision_count: int | None) -> str:
    """Return the hash of a revision's data, in letters and digits without vowels.

    A `collision_count` changes the hash, because a revision with other data has the
    name already. The value is upstream's for the same bytes.
    """
    probe = b"" if collision_count is None else str(collision_count).encode()
    return safe_encode(fnv1(bytes(data) + probe))


def revision_name(owner: str, hash_text: str) -> str:
    """Return the name of a revision: the owner's name, shortened, and the hash."""
    return f"{owner[:_LONGEST_PREFIX]}-{hash_text}"
