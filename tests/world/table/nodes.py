"""Nodes, their taints and devices, and the pods on them."""

from typing import Final

from controller_manager.api.json_objects import JSON

from .row import Change, Parts, Rng, Row, anew, gone, named, pod_spec

_NODES: Final = ("node-0", "node-1", "node-2")
_HEALTHY: Final = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False"}


def _nothing(_: str, __: Rng) -> Parts:
    return []


# Nodes with a kubelet


def _toggle_label(node: JSON, _: Rng) -> None:
    labels = node["metadata"].setdefault("labels", {})
    if labels.pop("pool", None) is None:
        labels["pool"] = "yes"


LABELS: Final = Row(
    "labels of nodes",
    _nothing,
    names=_NODES,
    changes={"label": Change("nodes", _toggle_label)},
    replaced=0,
)


def _cordon(node: JSON, rng: Rng) -> None:
    node["spec"]["unschedulable"] = rng.random() < 0.5


def _uncordon(node: JSON, _: Rng) -> None:
    node["spec"].pop("unschedulable", None)


def _relabel(node: JSON, rng: Rng) -> None:
    """Change a beta label, which a controller corrects."""
    node["metadata"]["labels"]["beta.kubernetes.io/os"] = rng.choice(("windows", "a"))


def _untimely(node: JSON, rng: Rng) -> None:
    """Remove the TTL, or set another one, which a controller corrects."""
    annotations = node["metadata"].setdefault("annotations", {})
    annotations.pop("node.alpha.kubernetes.io/ttl", None)
    if rng.random() < 0.7:
        annotations["node.alpha.kubernetes.io/ttl"] = "7"


CORDONED: Final = Row(
    "cordoned nodes",
    _nothing,
    names=_NODES[:2],
    changes={
        "cordon": Change("nodes", _cordon, weight=2),
        "relabel": Change("nodes", _relabel),
        "edit the ttl": Change("nodes", _untimely, weight=2),
    },
    replaced=0,
    last={"uncordon": Change("nodes", _uncordon)},
)


def _stop_or_start(node: JSON, _: Rng) -> None:
    """Stop the kubelet of a node, or start it again."""
    annotations = node["metadata"].setdefault("annotations", {})
    if annotations.pop("devcluster/stopped", None) is None:
        annotations["devcluster/stopped"] = "true"


STOPPED: Final = Row(
    "nodes that stop",
    _nothing,
    names=_NODES[1:],
    changes={"stop": Change("nodes", _stop_or_start, undone_after=70.0)},
    replaced=0,
)


# Nodes without a kubelet: they come, fall silent, and go


def _silent_node(name: str, _: Rng) -> Parts:
    """Return a node whose kubelet says nothing, and a pod on it for ever."""
    node = named(name)
    node["metadata"]["labels"] = {"of": "users"}
    node["metadata"]["annotations"] = {"devcluster/stopped": "true"}
    node["spec"] = {"taints": [{"key": "of-users", "effect": "NoSchedule"}]}
    tolerant = [{"operator": "Exists"}]
    pod = named(f"on-{name}", pod_spec(nodeName=name, tolerations=tolerant))
    return [("nodes", node), ("pods", pod)]


SILENT_NODES: Final = Row(
    "silent nodes",
    _silent_node,
    names=("far", "away"),
    changes={"lose for a while": Change("nodes", anew)},
    replaced=2,
    weight=2,
)


# Taints that evict


def _tolerant(name: str, _: Rng) -> Parts:
    toleration: JSON = {"key": "x", "operator": "Exists", "effect": "NoExecute"}
    if name == "patient":
        toleration["tolerationSeconds"] = 20
    tolerations = [] if name == "brittle" else [toleration]
    return [("pods", named(name, pod_spec(nodeName="node-0", tolerations=tolerations)))]


TOLERANT: Final = Row(
    "pods on tainted nodes",
    _tolerant,
    names=("stoic", "patient", "brittle"),
    needs=("taints",),
)


def _toggle_taint(node: JSON, _: Rng) -> None:
    taints = node["spec"].get("taints") or []
    others = [each for each in taints if each["key"] != "x"]
    more = [] if len(others) < len(taints) else [{"key": "x", "effect": "NoExecute"}]
    node["spec"]["taints"] = [*others, *more]


def _untaint(node: JSON, _: Rng) -> None:
    taints = node["spec"].get("taints") or []
    node["spec"]["taints"] = [each for each in taints if each["key"] != "x"]


TAINTS: Final = Row(
    "taints",
    _nothing,
    names=("node-0",),
    changes={"taint": Change("nodes", _toggle_taint)},
    replaced=0,
    last={"untaint": Change("nodes", _untaint)},
    weight=0,
)


# Groups of pods


def _group(name: str, _: Rng) -> Parts:
    pod = named(name, pod_spec(schedulingGroup={"podGroupName": name}))
    group = named(name, {"schedulingPolicy": {"basic": {}}})
    return [("podgroups", group), ("pods", pod)]


GROUPS: Final = Row("podgroups", _group, names=("training", "serving"), replaced=3)


# Devices


def _devices(name: str, _: Rng) -> Parts:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {
        "driver": "gpu.example.com",
        "pool": pool,
        "nodeName": name,
        "devices": [{"name": f"gpu-{number}"} for number in range(3)],
    }
    return [("resourceslices", named(name, spec))]


def _taint_device(obj: JSON, rng: Rng) -> None:
    for device in rng.sample(obj["spec"]["devices"], 2):
        if device.pop("taints", None) is None:
            device["taints"] = [{"key": "broken", "effect": "NoExecute"}]


def _repair(obj: JSON, _: Rng) -> None:
    for each in obj["spec"]["devices"]:
        each.pop("taints", None)


DEVICES: Final = Row(
    "resourceslices",
    _devices,
    names=("node-1",),
    changes={"taint": Change("resourceslices", _taint_device)},
    replaced=0,
    last={"repair": Change("resourceslices", _repair)},
    weight=0,
)


def _device_class(name: str, _: Rng) -> Parts:
    return [("deviceclasses", named(name, {"selectors": []}))]


CLASSES: Final = Row(
    "deviceclasses", _device_class, names=("gpu",), replaced=0, weight=0
)


def _device_user(name: str, _: Rng) -> Parts:
    """Return a pod with a claim of its own, or of a template."""
    exactly: JSON = {"deviceClassName": "gpu"}
    if name == "serve":
        exactly["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    wanted = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    if name == "train":
        template = named(name, {"spec": wanted})
        source = {"name": "own", "resourceClaimTemplateName": name}
        claim = ("resourceclaimtemplates", template)
    else:
        source = {"name": "own", "resourceClaimName": name}
        claim = ("resourceclaims", named(name, wanted))
    pod = named(name, pod_spec(resourceClaims=[source], restartPolicy="Never"))
    if name == "batch":
        pod["metadata"]["annotations"] = {"devcluster/run-seconds": "8"}
    return [claim, ("pods", pod)]


DEVICE_USERS: Final = Row(
    "resourceclaims",
    _device_user,
    names=("train", "serve", "batch"),
    replaced=3,
    needs=("deviceclasses", "resourceslices"),
    weight=2,
)


def _rule(name: str, _: Rng) -> Parts:
    taint = {"key": "recalled", "effect": "NoExecute"}
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
    return [("devicetaintrules", named(name, spec))]


RULES: Final = Row(
    "devicetaintrules",
    _rule,
    names=("recall",),
    replaced=2,
    last={"heal": Change("devicetaintrules", gone)},
    needs=("deviceclasses", "resourceslices", "resourceclaims"),
)


def _question(name: str, _: Rng) -> Parts:
    """Return a question about two pools; the last slice completes the second."""
    spec: JSON = {"driver": "parts.example.com"}
    parts: Parts = [("resourcepoolstatusrequests", named(name, spec))]
    for number, (generation, count) in enumerate(((1, 1), (2, 2), (2, 2))):
        pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
        devices = [{"name": f"part-{number}"}]
        spec = {**spec, "pool": pool, "nodeName": "node-0", "devices": devices}
        parts.append(("resourceslices", named(f"{name}-{number}", spec)))
    return parts


QUESTIONS: Final = Row(
    "resourcepoolstatusrequests",
    _question,
    names=("how-many",),
    # It is answered once, from what the cache shows then.
    last={"ask again": Change("resourcepoolstatusrequests", anew)},
    needs=("deviceclasses", "resourceslices"),
)

ROWS: Final[tuple[Row, ...]] = (
    LABELS,
    CORDONED,
    STOPPED,
    SILENT_NODES,
    TAINTS,
    TOLERANT,
    GROUPS,
    CLASSES,
    DEVICES,
    DEVICE_USERS,
    RULES,
    QUESTIONS,
)
