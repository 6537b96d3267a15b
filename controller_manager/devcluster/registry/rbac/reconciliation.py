"""Reconciles stored roles and bindings with those that must exist.

Upstream: pkg/registry/rbac/reconciliation, which the API server runs when it starts.
"""

from collections.abc import Callable, Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion

from .authorizer import missing

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""An annotation; the server does not reconcile objects with the value "false"."""

_AGGREGATION: Final = "aggregationRule"
_SUBJECT_FIELDS: Final = ("kind", "apiGroup", "name", "namespace")


def reconcile(
    objects: Objects,
    kind_of: Callable[[str, str], Kind | None],
    wanted: Iterable[JSON],
) -> None:
    """Create absent roles and bindings, and complete the stored ones.

    Rules, subjects, labels and annotations that users have added stay. An object with
    the annotation `AUTO_UPDATE` "false" is not changed. `kind_of` returns the kind of
    an apiVersion and a name.
    """
    for obj in wanted:
        kind = kind_of(obj["apiVersion"], obj["kind"])
        assert kind is not None  # noqa: S101 - a kind that this server has
        _reconcile_one(objects, kind, obj)


def _reconcile_one(objects: Objects, kind: Kind, wanted: JSON) -> None:
    metadata = wanted["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if not objects.has(kind, namespace, name):
        objects.create(kind, namespace, wanted)
        return
    stored = objects.find(kind, namespace, name).obj
    annotations = stored["metadata"].get("annotations") or {}
    if annotations.get(AUTO_UPDATE) == "false":
        return
    if "roleRef" in wanted and wanted["roleRef"] != stored["roleRef"]:
        # The role of a binding is immutable: delete the binding, and create it again.
        objects.delete(kind, namespace, name, Deletion())
        objects.create(kind, namespace, wanted)
        return
    changed = {
        **stored,
        "metadata": _merged(stored["metadata"], metadata),
        **(
            _subjects(stored, wanted) if "roleRef" in wanted else _rules(stored, wanted)
        ),
    }
    if changed != stored:
        objects.update(kind, namespace, name, changed)


def _merged(stored: JSON, wanted: JSON) -> JSON:
    """Return metadata with the labels and annotations that it lacks."""
    added = {
        field: {**wanted[field], **(stored.get(field) or {})}
        for field in ("labels", "annotations")
        if wanted.get(field)
    }
    return {**stored, **added}


def _rules(stored: JSON, wanted: JSON) -> JSON:
    """Return the rules of a role, or its aggregation rule."""
    if rule := wanted.get(_AGGREGATION):
        held = (stored.get(_AGGREGATION) or {}).get("clusterRoleSelectors") or []
        lacking = [each for each in rule["clusterRoleSelectors"] if each not in held]
        return {_AGGREGATION: {"clusterRoleSelectors": [*held, *lacking]}}
    if stored.get(_AGGREGATION):
        return {}
    held_rules = stored.get("rules") or []
    lacking_rules = missing(held_rules, wanted["rules"])
    return {"rules": [*held_rules, *lacking_rules]} if lacking_rules else {}


def _subjects(stored: JSON, wanted: JSON) -> JSON:
    """Return the subjects of a binding with those that it lacks."""
    held = stored.get("subjects") or []
    known = [_identity(each) for each in held]
    lacking = [each for each in wanted["subjects"] if _identity(each) not in known]
    return {"subjects": [*held, *lacking]} if lacking else {}


def _identity(subject: JSON) -> tuple[str, ...]:
    return tuple(subject.get(each, "") for each in _SUBJECT_FIELDS)
