"""Claims, volumes, their classes, and the pods that use them."""

from typing import Final

from controller_manager.api.json_objects import JSON

from .row import Change, Parts, Rng, Row, anew, gone, named, pod_spec, selecting, sets

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"
_SIZE: Final = {"storage": "1Gi"}
_BY_HAND: Final = "by-hand"
"""A class of volumes that nobody provisions."""


def _claim(name: str, **spec: object) -> tuple[str, JSON]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": _SIZE}}
    return CLAIMS, named(name, {**wanted, **spec})


def _volume(name: str, **spec: object) -> tuple[str, JSON]:
    fields = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": _SIZE,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": _BY_HAND,
        "csi": {"driver": "csi.example.com", "volumeHandle": name},
    }
    return VOLUMES, named(name, {**fields, **spec})


def _pod_with(name: str, volume: JSON) -> tuple[str, JSON]:
    volumes = [{"name": "data", **volume}]
    return "pods", named(name, pod_spec(volumes=volumes))


def _used_claim(name: str, _: Rng) -> Parts:
    volume = {"persistentVolumeClaim": {"claimName": name}}
    return [_claim(name), _pod_with(name, volume)]


def _lose(obj: JSON, _: Rng) -> None:
    """Remove the finalizers of an object, as a user may do by mistake."""
    obj["metadata"].pop("finalizers", None)


USED_CLAIMS: Final = Row(
    "claims with pods",
    _used_claim,
    names=("logs", "photos"),
    changes={"unprotect": Change(CLAIMS, _lose)},
    replaced=3,
    weight=2,
)


def _ephemeral(name: str, _: Rng) -> Parts:
    claim = _claim("")[1]
    template = {"metadata": {"labels": {"of": name}}, "spec": claim["spec"]}
    return [_pod_with(name, {"ephemeral": {"volumeClaimTemplate": template}})]


def _clashing(name: str, rng: Rng) -> Parts:
    """Return a claim of a user, and a pod that wants another of its name."""
    return [_claim(f"{name}-data"), *_ephemeral(name, rng)]


CLASHING: Final = Row("claims in the way", _clashing, names=("clash",))
EPHEMERAL: Final = Row(
    "ephemeral volumes",
    _ephemeral,
    names=("scratch",),
    leaves=((CLAIMS, "{name}-data"),),
)


def _bound_by_hand(name: str, rng: Rng) -> Parts:
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
    reserved = {"claimRef": reference} if rng.random() < 0.5 else {}
    asks = {"volumeName": name} if name == "books" else {}
    capacity = {"storage": "1Gi" if name == "books" else "2Gi"}
    wanted = {"requests": capacity}
    return [
        _volume(name, capacity=capacity, **reserved),
        _claim(name, storageClassName=_BY_HAND, resources=wanted, **asks),
    ]


BOUND_BY_HAND: Final = Row(
    "volumes by hand",
    _bound_by_hand,
    names=("books", "films"),
    changes={
        "unprotect": Change(VOLUMES, _lose),
        "claim anew": Change(CLAIMS, anew),
        "drop": Change(VOLUMES, gone),
    },
    replaced=3,
    weight=2,
)


def _growing(name: str, _: Rng) -> Parts:
    sources: dict[str, JSON] = {
        "flex": {"flexVolume": {"driver": "example.com/flex"}},
        "ebs": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    }
    reference = {"namespace": "default", "name": name}
    volume, claim = f"{name}-volume", {"storageClassName": f"{name}-class"}
    made = named(f"{name}-class", provisioner="example.com/nobody")
    obj = _volume(volume, claimRef=reference, **claim)[1]
    del obj["spec"]["csi"]
    obj["spec"] |= sources[name]
    return [
        ("storageclasses", {**made, "allowVolumeExpansion": True}),
        (VOLUMES, obj),
        _claim(name, volumeName=volume, **claim),
    ]


def _grow(obj: JSON, _: Rng) -> None:
    """Request more, and always the same: a second request may be seen first."""
    if obj.get("status", {}).get("phase") == "Bound":
        obj["spec"]["resources"] = {"requests": {"storage": "20Gi"}}


GROWING: Final = Row(
    "growing claims",
    _growing,
    names=("flex", "ebs"),
    changes={"grow": Change(CLAIMS, _grow, weight=3)},
    last={"grow": Change(CLAIMS, _grow)},
)


def _attributes_class(name: str, _: Rng) -> Parts:
    made = named(name, driverName="csi.example.com", parameters={"iops": "100"})
    uses = {"volumeAttributesClassName": name, "storageClassName": "tiers"}
    user = _claim(name, **uses) if name == "gold" else _volume(name, **uses)
    return [("volumeattributesclasses", made), user]


ATTRIBUTES_CLASSES: Final = Row(
    "attributes classes", _attributes_class, names=("gold", "silver"), replaced=3
)


def _attached(name: str, _: Rng) -> Parts:
    """Return a claim, and a deployment of one pod, which moves from node to node."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    spec = {
        "replicas": 1,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
        },
        **selecting(name, volumes=[volume]),
    }
    return [_claim(name), ("deployments", named(name, spec))]


def _move(obj: JSON, rng: Rng) -> None:
    node = f"node-{rng.randrange(3)}"
    spec = obj["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"kubernetes.io/hostname": node}


ATTACHED: Final = Row(
    "attached volumes",
    _attached,
    names=("disk",),
    changes={
        "move": Change("deployments", _move, weight=4),
        "scale": Change("deployments", sets(replicas=lambda rng: rng.randrange(2))),
    },
    weight=2,
)

ROWS: Final[tuple[Row, ...]] = (
    USED_CLAIMS,
    EPHEMERAL,
    CLASHING,
    BOUND_BY_HAND,
    GROWING,
    ATTRIBUTES_CLASSES,
    ATTACHED,
)
