"""Quotas, policies, migrations, owners, and other objects of the whole cluster."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
)

from .row import Change, Parts, Rng, Row, gone, label, named, pod_spec

# Quotas, in a namespace of their own, in which nobody is refused anything


_HARD: Final = {
    "pods": "20",
    "configmaps": "30",
    "count/secrets": "20",
    "requests.cpu": "9",
    "services": "9",
    "services.nodeports": "9",
}


def _quota(name: str, rng: Rng) -> Parts:
    """Return a quota of everything, or of some pods; one of its pods ends."""
    resources = {"requests": {"cpu": rng.choice(("100m", "1"))}}
    pod = named(f"{name}-counted", pod_spec())
    pod["spec"]["containers"][0]["resources"] = resources
    pod["spec"]["restartPolicy"] = "Never"
    if name == "objects":
        pod["metadata"]["annotations"] = {"devcluster/run-seconds": "8"}
    spec: JSON = {"hard": _HARD}
    if name == "scoped":
        spec = {"hard": {"pods": "20"}, "scopes": ["BestEffort"]}
    return [
        ("resourcequotas", named(name, spec)),
        ("configmaps", named(f"{name}-counted")),
        ("services", named(f"{name}-counted", {"ports": [{"port": 80}]})),
        ("pods", pod),
    ]


def _limit(obj: JSON, rng: Rng) -> None:
    hard = obj["spec"]["hard"]
    hard["pods"] = str(rng.randrange(10, 30))
    if "services" in hard and hard.pop("configmaps", None) is None:
        hard["configmaps"] = "30"


QUOTAS: Final = Row(
    "resourcequotas",
    _quota,
    names=("compute", "objects", "scoped"),
    changes={
        "limit": Change("resourcequotas", _limit, weight=2),
        "drop": Change("configmaps", gone, name="{name}-counted"),
        "free": Change("services", gone, name="{name}-counted"),
    },
    replaced=2,
    home="limited",
)


# Policies


_EXPRESSIONS: Final = (
    "object.spec.replicas <= 5",
    "object.replicas <= 5",
    "object.metadata.name == 5",
    "object.spec.template.spec.containers.all(c, c.img != '')",
)


def _policy(name: str, rng: Rng) -> Parts:
    wanted = rng.sample(_EXPRESSIONS, 2)
    return [("validatingadmissionpolicies", policy_json(name, *wanted))]


def _express(obj: JSON, rng: Rng) -> None:
    obj["spec"]["validations"] = [{"expression": rng.choice(_EXPRESSIONS)}]


POLICIES: Final = Row(
    "validatingadmissionpolicies",
    _policy,
    names=("small", "signed"),
    changes={
        "expression": Change("validatingadmissionpolicies", _express, weight=2),
        "label": Change("validatingadmissionpolicies", label),
    },
)


# Migrations


def _migration(name: str, _: Rng) -> Parts:
    spec = {"resource": {"resource": "configmaps"}}
    return [("storageversionmigrations", named(name, spec))]


MIGRATIONS: Final = Row(
    "storageversionmigrations", _migration, names=("first", "second"), replaced=2
)


def _storage_version(name: str, _: Rng) -> Parts:
    return [("storageversions", named(name, spec=None) | {"spec": {}})]


def _register(obj: JSON, rng: Rng) -> None:
    """Add an API server, which may be gone already, with one of two versions."""
    version = rng.choice(("v1", "v1beta1"))
    entry = {
        "apiServerID": f"apiserver-{rng.choice((0, 0, 1, 1, 2, 3))}",
        "encodingVersion": version,
        "decodableVersions": ["v1", "v1beta1"],
    }
    entries = obj.setdefault("status", {}).setdefault("storageVersions", [])
    if entry["apiServerID"] not in [each["apiServerID"] for each in entries]:
        entries.append(entry)
        if {each["encodingVersion"] for each in entries} == {version}:
            obj["status"]["commonEncodingVersion"] = version
        else:
            obj["status"].pop("commonEncodingVersion", None)


STORAGE_VERSIONS: Final = Row(
    "storageversions",
    _storage_version,
    names=("apps.deployments",),
    changes={"register": Change("storageversions", _register, "status", weight=3)},
    needs=("leases of API servers",),
)


def _server(name: str, _: Rng) -> Parts:
    lease = named(name)
    lease["metadata"]["labels"] = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
    return [("leases", lease)]


API_SERVERS: Final = Row(
    "leases of API servers",
    _server,
    names=("apiserver-0", "apiserver-1"),
    changes={"lose": Change("leases", gone)},
    home="kube-system",
    weight=0,
)


# Owners


def _tree(name: str, _: Rng) -> Parts:
    """Return an owner, a dependent, and a dependent of that."""
    parts = (("configmaps", "root"), ("secrets", "branch"), ("configmaps", "leaf"))
    return [(plural, named(f"{name}-{part}")) for plural, part in parts]


def _depend(obj: JSON, rng: Rng) -> None:
    """Let an object have an owner that is gone, or of a kind that nobody knows."""
    lost = {
        "apiVersion": "v1",
        "kind": rng.choice(("ConfigMap", "Invention")),
        "name": f"gone-{rng.randrange(3)}",
        "uid": f"00000000-0000-4000-8000-00000000000{rng.randrange(9)}",
    }
    obj["metadata"]["ownerReferences"] = [lost]


TREES: Final = Row(
    "owners",
    _tree,
    names=("oak", "elm"),
    changes={
        "disown": Change("configmaps", _depend, name="{name}-leaf"),
        "cut the branch": Change("secrets", gone, name="{name}-branch"),
    },
    replaced=3,
    is_chain=True,
    policies=("Background", "Foreground", "Orphan"),
)

ROWS: Final[tuple[Row, ...]] = (
    QUOTAS,
    POLICIES,
    MIGRATIONS,
    API_SERVERS,
    STORAGE_VERSIONS,
    TREES,
)
