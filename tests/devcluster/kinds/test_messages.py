"""The protobuf messages agree with the types of the API."""

from collections.abc import Mapping

import pytest

from controller_manager.devcluster.kinds import find_kinds
from controller_manager.devcluster.server.catalogue import Catalogue
from controller_manager.devcluster.server.messages import Message
from controller_manager.devcluster.server.schema import fields_of

MESSAGES: Mapping[str, Message] = Catalogue(find_kinds()).messages()
SCALARS = ("bool", "bytes", "int", "str")


def names_in(message: str) -> set[str]:
    """Return the names of a message's fields, those of messages in its place too."""
    names = set()
    for field in MESSAGES[message].values():
        name, _, kind = field.partition(":")
        names |= names_in(kind[1:]) if kind.startswith("+") else {name}
    return names


def test_every_message_is_there() -> None:
    """That another message contains."""
    missing = {
        f"{name}: {field}"
        for name, message in MESSAGES.items()
        for field in message.values()
        if (kind := field.partition(":")[2].lstrip("[]{}+")) not in SCALARS
        and kind not in MESSAGES
    }
    assert missing == set()


@pytest.mark.parametrize("message", sorted(MESSAGES))
def test_a_message_has_only_fields_of_its_type(message: str) -> None:
    """By their names in JSON."""
    version, _, name = message.rpartition(" ")
    models = (f"V1{name}",) if version else (f"V2{name}", f"V1{name}")
    fields = next(filter(None, map(fields_of, models)), {})
    if fields:
        assert names_in(message) - fields.keys() - {"selfLink"} == set()


@pytest.mark.parametrize(
    ("message", "absent"),
    [
        ("PodSpec", {"ephemeralContainers", "workloadRef", "schedulingGroup"}),
        ("Container", set()),
        ("Probe", set()),
        ("EnvVar", set()),
        ("JobSpec", {"scheduling"}),
        ("JobStatus", set()),
        ("CronJobSpec", set()),
        ("PodFailurePolicy", set()),
        ("SuccessPolicy", set()),
        ("PriorityClass", {"apiVersion", "kind"}),
        ("DaemonSetSpec", set()),
        ("DaemonSetStatus", set()),
        ("DeploymentStatus", set()),
        ("HTTPIngressPath", set()),
        ("IngressClassParametersReference", set()),
        ("IngressLoadBalancerIngress", set()),
        ("IngressSpec", set()),
        ("LeaseSpec", set()),
        ("NetworkPolicyPeer", set()),
        ("NetworkPolicyPort", set()),
        ("NetworkPolicySpec", set()),
        ("PersistentVolumeClaimStatus", set()),
        ("ReplicaSetSpec", set()),
        ("ReplicaSetStatus", set()),
        ("RuntimeClass", {"apiVersion", "kind"}),
        ("StatefulSetSpec", set()),
        ("StatefulSetStatus", set()),
        ("StorageClass", {"apiVersion", "kind"}),
    ],
)
def test_messages_are_complete(message: str, absent: set[str]) -> None:
    """So clients in Go can send whole objects."""
    fields = fields_of(f"V1{message}")
    assert fields
    assert fields.keys() - names_in(message) <= absent
