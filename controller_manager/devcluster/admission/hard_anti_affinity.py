"""The admission plugin LimitPodHardAntiAffinityTopology."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import PODS, refused, spec_of

_HOST: Final = "kubernetes.io/hostname"
_RULE: Final = "affinity.PodAntiAffinity.RequiredDuringScheduling"


class LimitPodHardAntiAffinityTopology(Plugin):
    """Refuses required anti-affinity for larger domains than a node."""

    name: ClassVar = "LimitPodHardAntiAffinityTopology"
    targets: ClassVar = PODS
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def validate(self, write: Write) -> None:
        """Raise Refusal for a required rule with another topology key."""
        affinity = spec_of(write).get("affinity") or {}
        rules = (affinity.get("podAntiAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        for rule in rules or ():
            if (key := rule.get("topologyKey", "")) != _HOST:
                why = f"has TopologyKey {key} but only key {_HOST} is allowed"
                raise refused(write, f"{_RULE} {why}")
