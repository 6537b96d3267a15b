"""Pod templates and replication controllers, and what all owners of templates share."""

from typing import Final

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.pods import POD_TEMPLATE, always_restarts
from controller_manager.devcluster.validation.rules import Rule
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import selects
from controller_manager.options.gates import Gate

GENERIC_WORKLOAD: Final = Gate("GenericWorkload", "ALPHA", default=False)
"""Pods may name the group with which they are scheduled."""

# What the owners of pod templates share, also those of other groups

CONTAINERS: Final = """
    Containers wide: join .spec.template.spec.containers[].name
    Images wide: join .spec.template.spec.containers[].image
"""
"""The columns of the containers."""

REPLICAS: Final = f"""
    Name
    Desired integer: .spec.replicas
    Current integer: .status.replicas
    Ready integer: .status.readyReplicas
    Age
    {CONTAINERS}
"""
"""The columns of an owner of equal pods."""


def template_labels(spec: JSON, _: str, __: JSON) -> list[Cause]:
    """Check that the selector of a spec selects the pods of its template."""
    return _mismatch(spec, spec.get("selector"))


def _mismatch(spec: JSON, selector: JSON | None) -> list[Cause]:
    labels = spec["template"]["metadata"].get("labels", {})
    if selects(selector, labels):
        return []
    where = "spec.template.metadata.labels"
    detail = "`selector` does not match template `labels`"
    return [invalid(where, shown(labels) if labels else "null", detail)]


def replica_status(counts: str, bounded: str, ready: str = "readyReplicas") -> Rule:
    """Return the rules for the counts of replicas in a status.

    None of `counts` may be negative, none of `bounded` greater than ``replicas``.
    `ready` is upstream's word when more replicas are available than ready.
    """
    return table(f"""
        status:
          {counts}: not-negative
          {bounded}: not-above replicas "cannot be greater than status.replicas"
          availableReplicas: not-above readyReplicas "cannot be greater than {ready}"
        """)


def default_template(owner_spec: JSON) -> None:
    """Fill in the pod template of a spec; add it if it is missing."""
    template = owner_spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_replicas(obj: JSON) -> None:
    """Fill in the number of replicas, and the template."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec)


# PodTemplate: a pod template as an object of its own


POD_TEMPLATES: Final = kind_of(
    "v1/podtemplates",
    apply_defaults=default_template,
    counts_generations=True,
    rules=POD_TEMPLATE,
    printer="""
        Name
        Containers: join .template.spec.containers[].name
        Images: join .template.spec.containers[].image
        Pod Labels: labels .template.metadata.labels or <none>
        """,
)

# ReplicationController: the predecessor of ReplicaSet selects pods by equality


def _default_controller(obj: JSON) -> None:
    """Fill in also the selector and the labels: those of the template."""
    default_replicas(obj)
    if labels := obj["spec"]["template"]["metadata"].get("labels"):
        obj["spec"].setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def equality_selector(obj: JSON) -> JSON | None:
    """Return the LabelSelector of an object whose selector is a map of labels."""
    selector = obj["spec"].get("selector")
    return {"matchLabels": selector} if selector else None


def _controller_labels(spec: JSON, _: str, __: JSON) -> list[Cause]:
    return _mismatch(spec, equality_selector({"spec": spec}))


_ALWAYS_RESTARTS: Final = always_restarts("ReplicationController")

CONTROLLERS: Final = kind_of(
    "v1/replicationcontrollers",
    apply_defaults=_default_controller,
    counts_generations=True,
    label_selector=equality_selector,
    orphans_dependents=True,
    selectable_fields="status.replicas",
    printer=f"{REPLICAS}\nSelector wide: labels .spec.selector or <none>",
    rules="""
        spec:
          replicas, minReadySeconds: not-negative
          selector: required
          hook controller_labels
          include POD_TEMPLATE ALWAYS_RESTARTS
        """,
    status_rules=replica_status(
        "replicas, fullyLabeledReplicas, readyReplicas, availableReplicas, "
        "observedGeneration",
        "fullyLabeledReplicas, readyReplicas, availableReplicas",
    ),
)
