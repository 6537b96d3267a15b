"""The admission plugins AlwaysAdmit, AlwaysDeny and AlwaysPullImages."""

from typing import ClassVar, Final

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .writes import PODS, refused, spec_of

_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_ALWAYS: Final = "Always"


class AlwaysAdmit(Plugin):
    """Allows everything."""

    name: ClassVar = "AlwaysAdmit"


class AlwaysDeny(Plugin):
    """Refuses everything."""

    name: ClassVar = "AlwaysDeny"
    mutates: ClassVar = frozenset(Operation)

    def mutate(self, write: Write) -> None:
        """Raise Refusal."""
        raise refused(write, "admission control is denying all modifications")


class AlwaysPullImages(Plugin):
    """Makes kubelets pull each image, so that they check the right to pull it."""

    name: ClassVar = "AlwaysPullImages"
    targets: ClassVar = PODS
    mutates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def mutate(self, write: Write) -> None:
        """Set the pull policy of all containers of a pod."""
        spec = spec_of(write)
        for container in (each for name in _LISTS for each in spec.get(name) or ()):
            container["imagePullPolicy"] = _ALWAYS
