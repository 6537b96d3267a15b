"""What creating, updating and deleting an object means (registry/generic).

Pure bookkeeping over storage: every function either returns the object as it
stands afterwards or raises a Refusal, in which case nothing has changed.
"""

import copy
import random
import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec

from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.api.times import format_time, parse_time
from controller_manager.clock import Clock
from controller_manager.devcluster.admission import (
    admit_to_namespace,
    admit_to_quota,
    quota_status,
)
from controller_manager.devcluster.defaults import apply_defaults, show_null_times
from controller_manager.devcluster.kinds import Kind
from controller_manager.devcluster.statuses import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid_object,
    not_found,
    not_supported,
    required,
)
from controller_manager.devcluster.storage import Key, Storage, Stored
from controller_manager.devcluster.validation import (
    shown,
    validate,
    validate_metadata,
    validate_metadata_update,
    validate_status,
    validate_update,
)

JSON = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version "
    "and try again"
)

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_PREFIX: Final = 58
_SYSTEM_NAMESPACES: Final = frozenset(("default", "kube-system", "kube-public"))
_SERVER_OWNED: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
_NEEDS_VERSION: Final = frozenset(("Lease",))


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a DELETE."""

    grace_period: int | None = None
    policy: str = ""
    dry_run: bool = False
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def parse(cls, body: JSON, query: dict[str, str]) -> "Deletion":
        """Read DeleteOptions from body and query; raises Refusal."""
        if not isinstance(body, dict):
            raise bad_request("DeleteOptions must be an object")
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        if grace is not None and not re.fullmatch(r"-?\d{1,9}", str(grace)):
            raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}")
        policy = body.get("propagationPolicy", query.get("propagationPolicy", ""))
        if body.get("orphanDependents"):
            policy = "Orphan"
        if policy not in ("", "Foreground", "Background", "Orphan"):
            supported = ("Foreground", "Background", "Orphan", "nil")
            cause = not_supported("propagationPolicy", f'"{policy}"', supported)
            raise invalid_object("meta.k8s.io", "DeleteOptions", "", [cause])
        preconditions = body.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise bad_request("preconditions must be an object")
        return cls(
            grace_period=int(grace) if grace is not None else None,
            policy=policy,
            dry_run=asks_for_dry_run(body.get("dryRun")),
            uid=preconditions.get("uid", ""),
            resource_version=preconditions.get("resourceVersion", ""),
        )


def asks_for_dry_run(value: str | list[str] | None) -> bool:
    """Tell whether dryRun says All; raises Refusal for anything else."""
    if value in (None, "", []):
        return False
    if value in ("All", ["All"]):
        return True
    cause = not_supported("dryRun", shown(value), ("All",))
    raise invalid_object("meta.k8s.io", "Options", "", [cause])


class Objects:
    """The verbs on stored objects."""

    def __init__(self, storage: Storage, clock: Clock, rng: random.Random) -> None:
        """Take where objects are, the time, and where uids and names come from."""
        self.storage = storage
        self._clock = clock
        self._rng = rng
        self._next_address = 1

    # Reading

    def find(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object; raises Refusal 404."""
        stored = self.storage.collection(kind.resource).get((namespace, name))
        if stored is None:
            raise not_found(kind.group, kind.plural, name)
        return stored

    # Creating

    def create(
        self, kind: Kind, namespace: str, obj: JSON, *, dry_run: bool = False
    ) -> Stored:
        """Store a new object."""
        obj = copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        self._place(kind, namespace, metadata)
        self._name(metadata)
        if kind.namespaced:
            admit_to_namespace(self.storage, kind, namespace, metadata.get("name", ""))
        if metadata.get("resourceVersion"):
            message = "resourceVersion should not be set on objects to be created"
            raise bad_request(message)
        self._stamp_new(kind, metadata)
        if kind.has_status:
            obj.pop("status", None)
        apply_defaults(kind.kind, obj)
        self._complete(kind, obj)
        causes = validate_metadata(kind.kind, metadata) + validate(kind.kind, obj)
        if causes:
            raise invalid_object(
                kind.group, kind.kind, metadata.get("name", ""), causes
            )
        key = (metadata.get("namespace", ""), metadata["name"])
        collection = self.storage.collection(kind.resource)
        if collection.get(key) is not None:
            raise already_exists(kind.group, kind.plural, metadata["name"])
        if kind.resource == "pods":
            admit_to_quota(self.storage, kind, obj)
        stored = self._put(kind, key, obj, dry_run=dry_run)
        self._recount_quotas(kind, namespace, dry_run=dry_run)
        return stored

    def _place(self, kind: Kind, namespace: str, metadata: JSON) -> None:
        given = metadata.get("namespace", "")
        if kind.namespaced:
            if given and given != namespace:
                message = (
                    "the namespace of the provided object does not match the "
                    "namespace sent on the request"
                )
                raise bad_request(message)
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)

    def _name(self, metadata: JSON) -> None:
        prefix = metadata.get("generateName", "")
        if prefix and not metadata.get("name"):
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=5))
            metadata["name"] = prefix[:_MAX_PREFIX] + suffix

    def _stamp_new(self, kind: Kind, metadata: JSON) -> None:
        for name in (*_SERVER_OWNED, "resourceVersion", "managedFields"):
            metadata.pop(name, None)
        bits = self._rng.getrandbits(128)
        metadata["uid"] = str(uuid.UUID(int=bits, version=4))
        metadata["creationTimestamp"] = format_time(self._clock.now())
        if kind.has_generation:
            metadata["generation"] = 1

    def _complete(self, kind: Kind, obj: JSON) -> None:
        """Fill in what takes more than the object itself to know."""
        if kind.resource == "namespaces":
            obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        elif kind.resource == "customresourcedefinitions.apiextensions.k8s.io":
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if CLEANUP not in finalizers:
                finalizers.append(CLEANUP)
        elif kind.resource == "jobs.batch":
            _label_job(obj)
        elif kind.resource == "services":
            spec = obj["spec"]
            if spec["type"] != "ExternalName" and "clusterIP" not in spec:
                number = self._next_address
                self._next_address += 1
                spec["clusterIP"] = f"10.96.{number // 250}.{number % 250 + 1}"
                spec["clusterIPs"] = [spec["clusterIP"]]

    def _put(self, kind: Kind, key: Key, obj: JSON, *, dry_run: bool) -> Stored:
        complete = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            **show_null_times(kind.kind, obj),
        }
        if dry_run:
            return Stored(complete, self.storage.version)
        return self.storage.collection(kind.resource).put(key, complete)

    # Updating

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        obj: JSON,
        subresource: str = "",
        *,
        dry_run: bool = False,
        uid_is_precondition: bool = True,
    ) -> Stored:
        """Replace an object, its status, or a namespace's finalizers."""
        stored = self.find(kind, namespace, name)
        old = stored.obj
        new = copy.deepcopy(obj)
        metadata = new.setdefault("metadata", {})
        self._check_identity(kind, namespace, name, metadata)
        self._check_version(kind, name, old, metadata)
        if uid_is_precondition:
            self._check_uid(kind, namespace, name, old, metadata)
        metadata_causes = validate_metadata_update(
            old["metadata"], {**metadata, "uid": metadata.get("uid") or _uid(old)}
        )
        self._carry_over(old, metadata)
        new = self._reconcile(kind, old, new, subresource)
        # Upstream checks metadata twice, in the registry and in the strategy.
        causes = [*metadata_causes, *metadata_causes]
        apply_defaults(kind.kind, new)
        if subresource == "status":
            causes += validate_status(kind.kind, new)
        else:
            causes += validate(kind.kind, new) + validate_update(kind.kind, old, new)
        if causes:
            raise invalid_object(kind.group, kind.kind, name, causes)
        return self._replace(kind, stored, new, subresource, dry_run=dry_run)

    def _check_identity(
        self, kind: Kind, namespace: str, name: str, metadata: JSON
    ) -> None:
        self._place(kind, namespace, metadata)
        given = metadata.get("name", "")
        if given and given != name:
            message = (
                f"the name of the object ({given}) does not match the name on the "
                f"URL ({name})"
            )
            raise bad_request(message)
        metadata["name"] = name

    def _check_version(self, kind: Kind, name: str, old: JSON, metadata: JSON) -> None:
        given = metadata.get("resourceVersion", "")
        if not given and kind.kind in _NEEDS_VERSION:
            cause = required(
                "metadata.resourceVersion", "must be specified for an update"
            )
            raise invalid_object(kind.group, kind.kind, name, [cause])
        if given and given != old["metadata"]["resourceVersion"]:
            raise conflict(kind.group, kind.plural, name, MODIFIED)

    def _check_uid(
        self, kind: Kind, namespace: str, name: str, old: JSON, metadata: JSON
    ) -> None:
        given = metadata.get("uid")
        if not given or given == _uid(old):
            return
        path = f"{namespace}/{name}" if namespace else name
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/{kind.plural}/"
            f"{path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID "
            f"in precondition: {given}, UID in object meta: {_uid(old)}"
        )
        raise conflict(kind.group, kind.plural, name, why)

    def _carry_over(self, old: JSON, metadata: JSON) -> None:
        for name in _SERVER_OWNED:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        metadata.pop("managedFields", None)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]

    def _reconcile(self, kind: Kind, old: JSON, new: JSON, subresource: str) -> JSON:
        """Keep what the endpoint in use may not change."""
        if subresource == "finalize":
            return {**old, "spec": new.get("spec", {})}
        if subresource == "status":
            metadata = new["metadata"]
            kept = {"Deployment": "labels", "Pod": "ownerReferences"}.get(kind.kind)
            if kept is not None:
                metadata.pop(kept, None)
                if kept in old["metadata"]:
                    metadata[kept] = old["metadata"][kept]
            status = new.get("status", {})
            return {**old, "metadata": metadata, "status": status}
        if kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if kind.resource == "namespaces":
            new["spec"] = old["spec"]
        return new

    def _replace(
        self, kind: Kind, stored: Stored, new: JSON, subresource: str, *, dry_run: bool
    ) -> Stored:
        old, metadata = stored.obj, new["metadata"]
        complete = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            **show_null_times(kind.kind, new),
        }
        if complete == old:
            return stored  # nothing changes: no new version, no event
        if kind.has_generation and not subresource and _spec_changed(kind, old, new):
            metadata["generation"] = old["metadata"]["generation"] + 1
        key = (metadata.get("namespace", ""), metadata["name"])
        result = self._put(kind, key, new, dry_run=dry_run)
        if _is_released(kind, new) and not dry_run:
            self._remove(kind, key)
        self._recount_quotas(kind, key[0], dry_run=dry_run)
        return result

    # Deleting

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        options: Deletion,
        *,
        dry_run: bool = False,
    ) -> tuple[JSON, bool]:
        """Delete an object, or mark it; return it and whether it is gone."""
        stored = self.find(kind, namespace, name)
        self._check_preconditions(kind, stored.obj, options)
        if kind.resource == "namespaces":
            return self._delete_namespace(kind, stored, dry_run=dry_run)
        period = _grace_period(kind, stored.obj, options)
        marked = self._marked(kind, stored.obj, options, period)
        gone = period == 0 and not marked["metadata"].get("finalizers")
        if dry_run:
            return marked, gone
        key = (namespace, name)
        if kind.resource == "pods" or not gone:
            unchanged = marked == stored.obj
            result = (
                stored if unchanged else self._put(kind, key, marked, dry_run=False)
            )
        else:
            result = stored
        if gone:
            self._remove(kind, key)
            self._recount_quotas(kind, namespace, dry_run=False)
        return result.obj, gone

    def _check_preconditions(self, kind: Kind, obj: JSON, options: Deletion) -> None:
        metadata = obj["metadata"]
        name = metadata["name"]
        if options.uid and options.uid != metadata["uid"]:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID "
                f"in record ({metadata['uid']}). The object might have been deleted "
                "and then recreated"
            )
            raise conflict(kind.group, kind.kind, name, why)
        version = metadata["resourceVersion"]
        if options.resource_version and options.resource_version != version:
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version})"
                f" does not match the ResourceVersion in record ({version}). The "
                "object might have been modified"
            )
            raise conflict(kind.group, kind.kind, name, why)

    def _marked(self, kind: Kind, obj: JSON, options: Deletion, period: int) -> JSON:
        """Return `obj` with its deletion on record."""
        metadata = dict(obj["metadata"])
        finalizers = list(metadata.pop("finalizers", []))
        policy = options.policy
        if not policy and kind.orphans_dependents and FOREGROUND not in finalizers:
            policy = "Orphan"  # what these kinds did before there was a choice
        if policy:
            finalizers = [
                each for each in finalizers if each not in (FOREGROUND, ORPHAN)
            ]
        wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        if wanted is not None and wanted not in finalizers:
            finalizers.append(wanted)
        if finalizers:
            metadata["finalizers"] = finalizers
        if "deletionTimestamp" not in metadata:
            due = self._clock.now() + timedelta(seconds=period)
            metadata["deletionTimestamp"] = format_time(due)
            metadata["deletionGracePeriodSeconds"] = period
            if "generation" in metadata:
                metadata["generation"] += 1
        elif period < metadata.get("deletionGracePeriodSeconds", 0):
            # A second, more urgent request brings the end forward.
            earlier = metadata["deletionGracePeriodSeconds"] - period
            due = parse_time(metadata["deletionTimestamp"]) - timedelta(seconds=earlier)
            metadata["deletionTimestamp"] = format_time(due)
            metadata["deletionGracePeriodSeconds"] = period
        return {**obj, "metadata": metadata}

    def _delete_namespace(
        self, kind: Kind, stored: Stored, *, dry_run: bool
    ) -> tuple[JSON, bool]:
        metadata = dict(stored.obj["metadata"])
        name = metadata["name"]
        if name in _SYSTEM_NAMESPACES:
            why = "this namespace may not be deleted"
            raise forbidden(kind.group, kind.plural, name, why)
        if "deletionTimestamp" in metadata:
            why = (
                "The system is ensuring all content is removed from this namespace.  "
                "Upon completion, this namespace will automatically be purged by the "
                "system."
            )
            raise conflict(kind.group, kind.plural, name, why)
        metadata["deletionTimestamp"] = format_time(self._clock.now())
        status = {**stored.obj.get("status", {}), "phase": "Terminating"}
        marked = {**stored.obj, "metadata": metadata, "status": status}
        key = ("", name)
        result = self._put(kind, key, marked, dry_run=dry_run)
        gone = _is_released(kind, marked)
        if gone and not dry_run:
            self._remove(kind, key)
        return result.obj, gone

    def _remove(self, kind: Kind, key: Key) -> None:
        self.storage.collection(kind.resource).remove(key)

    def expire(self, kind: Kind, older_than: timedelta) -> None:
        """Drop objects that were last written longer ago than that (events)."""
        limit = self._clock.now() - older_than
        collection = self.storage.collection(kind.resource)
        for stored in collection:
            last = stored.obj.get("lastTimestamp")
            last = last or stored.obj["metadata"]["creationTimestamp"]
            if parse_time(last) < limit:
                metadata = stored.obj["metadata"]
                collection.remove((metadata["namespace"], metadata["name"]))

    # Subresources

    def bind(self, kind: Kind, namespace: str, name: str, node: str) -> None:
        """Assign a pod to a node."""
        stored = self.find(kind, namespace, name)
        assigned = stored.obj["spec"].get("nodeName")
        if assigned:
            why = f'pod {name} is already assigned to node "{assigned}"'
            raise conflict("", "pods/binding", name, why)
        if stored.obj["metadata"].get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict("", "pods/binding", name, why)
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        status = stored.obj.get("status", {})
        others = [
            each
            for each in status.get("conditions", [])
            if each["type"] != "PodScheduled"
        ]
        new = {
            **stored.obj,
            "spec": {**stored.obj["spec"], "nodeName": node},
            "status": {**status, "conditions": [*others, condition]},
        }
        self._put(kind, (namespace, name), new, dry_run=False)

    def scale_of(self, kind: Kind, stored: Stored) -> JSON:
        """Return the scale subresource of an object."""
        metadata, spec = stored.obj["metadata"], stored.obj["spec"]
        shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: JSON = {"replicas": stored.obj.get("status", {}).get("replicas", 0)}
        if selector := _scale_selector(kind, spec):
            status["selector"] = selector
        replicas = spec.get("replicas", 0)
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in shown if name in metadata},
            # Go leaves a zero out here.
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }

    def _recount_quotas(self, kind: Kind, namespace: str, *, dry_run: bool) -> None:
        """Keep the quotas' status true, as the quota controller would."""
        if kind.resource not in ("pods", "resourcequotas") or dry_run:
            return
        collection = self.storage.collection("resourcequotas")
        for stored in collection:
            metadata = stored.obj["metadata"]
            if metadata["namespace"] != namespace:
                continue
            status = quota_status(self.storage, stored.obj)
            if stored.obj.get("status") != status:
                collection.put(
                    (namespace, metadata["name"]), {**stored.obj, "status": status}
                )


def _label_job(job: JSON) -> None:
    """Make a job select its own pods, unless its user knows better."""
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata["name"]
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {
        **template.get("labels", {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    metadata.setdefault("labels", dict(template["labels"]))


def _uid(obj: JSON) -> str:
    return str(obj["metadata"]["uid"])


def _spec_changed(kind: Kind, old: JSON, new: JSON) -> bool:
    """Tell whether the generation goes up; a deployment's counts annotations."""
    content = ("metadata", "status", "kind", "apiVersion")
    before = {key: value for key, value in old.items() if key not in content}
    after = {key: value for key, value in new.items() if key not in content}
    if before != after:
        return True
    annotations = [each["metadata"].get("annotations") for each in (old, new)]
    return kind.kind == "Deployment" and annotations[0] != annotations[1]


def _is_released(kind: Kind, obj: JSON) -> bool:
    """Tell whether an object that is being deleted has nothing to wait for."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind.resource == "namespaces":
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


def _grace_period(kind: Kind, obj: JSON, options: Deletion) -> int:
    """Return the seconds that an object has until it must be gone."""
    if kind.resource != "pods":
        return 0
    spec, phase = obj["spec"], obj.get("status", {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if options.grace_period is not None:
        period = options.grace_period
    else:
        period = int(spec.get("terminationGracePeriodSeconds", 30))
    current = obj["metadata"].get("deletionGracePeriodSeconds")
    if current is not None:
        period = min(period, current)
    # A century is for ever, and still a date.
    return min(period, 100 * 365 * 86400) if period >= 0 else 1


def _scale_selector(kind: Kind, spec: JSON) -> str:
    selector = spec.get("selector")
    if not selector:
        return ""
    if kind.kind == "ReplicationController":
        selector = {"matchLabels": selector}
    return format_selector(msgspec.convert(selector, LabelSelector))
