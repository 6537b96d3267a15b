"""Quotas, policies, migrations, owners, and other objects of the whole cluster."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.cluster.validatingadmissionpolicystatus.builders import (
    policy_json,
)

from .row import Change, Parts, Rng, Row, label, named, pod_spec

# Quotas, in a namespace of their own, in which nobody is refused anything


def _quota(name: str, rng: Rng) -> Parts:
    hard = {"pods": "20", "configmaps": "30", "count/secrets": "20"}
    resources = {"requests": {"cpu": rng.choice(("100m", "1"))}}
    pod = pod_spec()
    pod["containers"][0]["resources"] = resources
    return [
        ("resourcequotas", named(name, {"hard": {**hard, "requests.cpu": "9"}})),
        ("configmaps", named(f"{name}-counted")),
        ("pods", named(f"{name}-counted", pod)),
    ]


def _limit(obj: JSON, rng: Rng) -> None:
    hard = obj["spec"]["hard"]
    hard["pods"] = str(rng.randrange(10, 30))
    if rng.random() < 0.5:
        hard.pop("count/secrets", None)
    else:
        hard["count/secrets"] = "20"


QUOTAS: Final = Row(
    "resourcequotas",
    _quota,
    names=("compute", "objects"),
    changes={"limit": Change("resourcequotas", _limit, weight=2)},
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
    """Add an API server that is gone already."""
    entry = {
        "apiServerID": f"apiserver-{rng.randrange(9)}",
        "encodingVersion": "v1",
        "decodableVersions": ["v1"],
    }
    entries = obj.setdefault("status", {}).setdefault("storageVersions", [])
    if entry["apiServerID"] not in [each["apiServerID"] for each in entries]:
        entries.append(entry)
        obj["status"]["commonEncodingVersion"] = "v1"


STORAGE_VERSIONS: Final = Row(
    "storageversions",
    _storage_version,
    names=("apps.deployments",),
    changes={"register": Change("storageversions", _register, "status", weight=3)},
)


# Owners


def _tree(name: str, _: Rng) -> Parts:
    """Return an owner; its dependents refer to it when the user knows its uid."""
    return [("configmaps", named(f"{name}-{part}")) for part in ("root", "leaf")]


def _depend(obj: JSON, rng: Rng) -> None:
    """Let an object have an owner that is gone, or two of which one is there."""
    gone = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": f"gone-{rng.randrange(3)}",
        "uid": f"00000000-0000-4000-8000-00000000000{rng.randrange(9)}",
    }
    obj["metadata"]["ownerReferences"] = [gone]


TREES: Final = Row(
    "owners",
    _tree,
    names=("oak", "elm"),
    changes={"disown": Change("configmaps", _depend, name="{name}-leaf", weight=2)},
    policies=("Background", "Foreground", "Orphan"),
)

ROWS: Final[tuple[Row, ...]] = (
    QUOTAS,
    POLICIES,
    MIGRATIONS,
    STORAGE_VERSIONS,
    TREES,
)
