"""The flow schemas and priority levels that every cluster has.

Upstream: staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.fixed_uids import fixed_uid
from controller_manager.devcluster.server.registry.objects import Objects

MANDATORY: Final = ("exempt", "catch-all")
"""The names of mandatory schemas and levels, which always exist with these specs."""

_EVERYBODY: Final = ("system:unauthenticated", "system:authenticated")
_LOCK: Final = ("get", "create", "update")
_EVERY_PATH: Final[JSON] = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def _groups(*names: str) -> list[JSON]:
    return [{"kind": "Group", "group": {"name": each}} for each in names]


def _users(*names: str) -> list[JSON]:
    return [{"kind": "User", "user": {"name": each}} for each in names]


def _system_accounts(*names: str) -> list[JSON]:
    return [
        {
            "kind": "ServiceAccount",
            "serviceAccount": {"namespace": "kube-system", "name": each},
        }
        for each in names
    ]


def _resources(
    verbs: tuple[str, ...], group: str, *resources: str, cluster: bool = False
) -> JSON:
    rule: JSON = {"verbs": [*verbs], "apiGroups": [group], "resources": [*resources]}
    if cluster:
        rule["clusterScope"] = True
    return {**rule, "namespaces": ["*"]}


_ALL: Final[JSON] = {
    "resourceRules": [_resources(("*",), "*", "*", cluster=True)],
    "nonResourceRules": [_EVERY_PATH],
}
_LEASES: Final = _resources(_LOCK, "coordination.k8s.io", "leases")
_PROBES: Final[JSON] = {
    "verbs": ["get"],
    "nonResourceURLs": ["/healthz", "/readyz", "/livez"],
}


def _schema(
    level: str, precedence: int, method: str, subjects: list[JSON], rules: JSON
) -> JSON:
    distinguished = {"distinguisherMethod": {"type": method}} if method else {}
    return {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        **distinguished,
        "rules": [{"subjects": subjects, **rules}],
    }


FLOW_SCHEMAS: Final[Mapping[str, JSON]] = {
    "exempt": _schema("exempt", 1, "", _groups("system:masters"), _ALL),
    "probes": _schema(
        "exempt", 2, "", _groups(*_EVERYBODY), {"nonResourceRules": [_PROBES]}
    ),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        [
            *_users("system:kube-controller-manager", "system:kube-scheduler"),
            *_system_accounts("*"),
        ],
        {"resourceRules": [_LEASES]},
    ),
    "endpoint-controller": _schema(
        "workload-high",
        150,
        "ByUser",
        [
            *_users("system:kube-controller-manager"),
            *_system_accounts(
                "endpoint-controller", "endpointslicemirroring-controller"
            ),
        ],
        {"resourceRules": [_resources(_LOCK, "", "endpoints")]},
    ),
    "workload-leader-election": _schema(
        "leader-election",
        200,
        "ByUser",
        _system_accounts("*"),
        {"resourceRules": [_LEASES]},
    ),
    "system-node-high": _schema(
        "node-high",
        400,
        "ByUser",
        _groups("system:nodes"),
        {
            "resourceRules": [
                _resources(("*",), "", "nodes", "nodes/status", cluster=True),
                _resources(("*",), "coordination.k8s.io", "leases"),
            ]
        },
    ),
    "system-nodes": _schema("system", 500, "ByUser", _groups("system:nodes"), _ALL),
    "kube-controller-manager": _schema(
        "workload-high",
        800,
        "ByNamespace",
        _users("system:kube-controller-manager"),
        _ALL,
    ),
    "kube-scheduler": _schema(
        "workload-high", 800, "ByNamespace", _users("system:kube-scheduler"), _ALL
    ),
    "kube-system-service-accounts": _schema(
        "workload-high", 900, "ByNamespace", _system_accounts("*"), _ALL
    ),
    "service-accounts": _schema(
        "workload-low", 9000, "ByUser", _groups("system:serviceaccounts"), _ALL
    ),
    "global-default": _schema(
        "global-default", 9900, "ByUser", _groups(*_EVERYBODY), _ALL
    ),
    "catch-all": _schema("catch-all", 10_000, "ByUser", _groups(*_EVERYBODY), _ALL),
}
"""The specs of the flow schemas, by name."""


def _limited(shares: int, lendable: int, response: JSON) -> JSON:
    limits = {
        "nominalConcurrencyShares": shares,
        "limitResponse": response,
        "lendablePercent": lendable,
    }
    return {"type": "Limited", "limited": limits}


def _queued(shares: int, lendable: int, queues: int, hand: int = 6) -> JSON:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    return _limited(shares, lendable, {"type": "Queue", "queuing": queuing})


PRIORITY_LEVELS: Final[Mapping[str, JSON]] = {
    "exempt": {
        "type": "Exempt",
        "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    },
    "catch-all": _limited(5, 0, {"type": "Reject"}),
    "global-default": _queued(20, 50, 128),
    "leader-election": _queued(10, 0, 16, hand=4),
    "node-high": _queued(40, 25, 64),
    "system": _queued(30, 33, 64),
    "workload-high": _queued(40, 50, 128),
    "workload-low": _queued(100, 90, 128),
}
"""The specs of the priority levels, by name."""


def with_metadata(objects: Objects, name: str, plural: str) -> JSON:
    """Return the metadata of an object that the API server creates itself.

    An object that is created again has another uid: kubectl waits until the deleted uid
    is gone.
    """
    seed = f"{plural}/{name}/{objects.storage.version}"
    metadata = {
        "name": name,
        "uid": fixed_uid(seed),
        "generation": 1,
        "creationTimestamp": format_time(objects.clock.now()),
        "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
    }
    return {"metadata": metadata}
