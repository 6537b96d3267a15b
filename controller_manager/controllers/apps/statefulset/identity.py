"""The identity of a stateful set's pods: ordinals, names, labels.

Upstream: getParentNameAndOrdinal, identityMatches and updateIdentity of
stateful_set_utils.go.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, labels_of
from controller_manager.api.workloads import desired_replicas
from controller_manager.control.history.names import POD_REVISION_LABEL

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
"""The label with the pod's own name, so that a service can select one pod."""

POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
"""The label with the pod's ordinal."""

_NAME: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_HIGHEST: Final = 2**31 - 1


def parent_and_ordinal(name: str) -> tuple[str, int] | None:
    """Return the name of the set and the ordinal that a pod's name consists of.

    `None` if the name has another form. Unlike upstream, ``web-01`` has another form:
    it would take the place of ``web-1``.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) > _HIGHEST:
        return None
    return match[1], int(match[2])


def ordinal_of(stateful_set: StatefulSet, pod: KubeObject) -> int | None:
    """Return the ordinal of a pod, `None` if the set does not give its name."""
    found = parent_and_ordinal(pod.metadata.name)
    if found is None or found[0] != stateful_set.metadata.name:
        return None
    return found[1]


def ordinals(stateful_set: StatefulSet) -> range:
    """Return the ordinals that the set wants, in ascending order."""
    configured = stateful_set.spec.ordinals
    start = configured.start if configured is not None else 0
    return range(start, start + desired_replicas(stateful_set))


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """Return the name of the pod with an ordinal."""
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, template: str, ordinal: int) -> str:
    """Return the name of the claim that a template makes for the pod of an ordinal."""
    return f"{template}-{stateful_set.metadata.name}-{ordinal}"


def claim_templates(stateful_set: StatefulSet) -> Iterable[PersistentVolumeClaim]:
    """Return the templates of the set's claims; of two with one name, the last.

    The API server allows two templates of one name. The name keeps the place of the
    first one, so the order of a pod's volumes does not change.
    """
    templates = stateful_set.spec.volume_claim_templates or ()
    return {each.metadata.name: each for each in templates}.values()


def claim_prefixes(stateful_set: StatefulSet) -> Iterable[str]:
    """Yield the names of the set's claims without their ordinals.

    With the namespace before it, each is a key of the index that finds the set of a
    claim.
    """
    metadata = stateful_set.metadata
    for template in claim_templates(stateful_set):
        yield f"{metadata.namespace}/{template.metadata.name}-{metadata.name}"


def identity_labels(name: str, ordinal: int) -> Mapping[str, str]:
    """Return the labels by which a pod shows its identity."""
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}


def has_identity(pod: Pod) -> bool:
    """Tell whether the pod has the label with its name.

    A missing or wrong pod index alone is not repaired, as upstream.
    """
    return labels_of(pod).get(POD_NAME_LABEL) == pod.metadata.name


def revision_of(pod: Pod) -> str:
    """Return the name of the revision that a pod was made from, empty for none."""
    return labels_of(pod).get(POD_REVISION_LABEL, "")
