"""What the kinds of this group share."""

from collections.abc import Mapping
from typing import ClassVar, Final

from controller_manager.devcluster.server.messages import Message
from controller_manager.devcluster.server.names import validate_path_segment
from controller_manager.devcluster.server.statuses import Cause
from controller_manager.devcluster.server.strategy import Strategy

_MESSAGES: Final[Mapping[str, Message]] = {
    "Role": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "ClusterRole": {1: "metadata:ObjectMeta", 2: "rules:[]PolicyRule"},
    "PolicyRule": {
        1: "verbs:[]str",
        2: "apiGroups:[]str",
        3: "resources:[]str",
        4: "resourceNames:[]str",
        5: "nonResourceURLs:[]str",
    },
    "RoleBinding": {
        1: "metadata:ObjectMeta",
        2: "subjects:[]Subject",
        3: "roleRef:RoleRef",
    },
    "ClusterRoleBinding": {
        1: "metadata:ObjectMeta",
        2: "subjects:[]Subject",
        3: "roleRef:RoleRef",
    },
    "Subject": {1: "kind:str", 2: "apiGroup:str", 3: "name:str", 4: "namespace:str"},
    "RoleRef": {1: "apiGroup:str", 2: "kind:str", 3: "name:str"},
}


class _Named(Strategy):
    """Names may be anything that fits into a path."""

    messages: ClassVar = _MESSAGES

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new object."""
        return validate_path_segment(name, "metadata.name")


ROLE_STRATEGY: Final = _Named()
BINDING_STRATEGY: Final = _Named()
