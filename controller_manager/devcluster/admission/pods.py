"""The admission plugins about pods: tokens, tolerations, priority, runtime class."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.hashes import safe_encode
from controller_manager.control.quota.resources import amounts
from controller_manager.devcluster.apiserver.admission import (
    Operation,
    Submission,
    Write,
)
from controller_manager.devcluster.apiserver.kind import Pending
from controller_manager.devcluster.registry.core.pods import labelled_by_node
from controller_manager.devcluster.registry.scheduling import (
    LOWER_PRIORITY,
    find_priority_class,
)
from controller_manager.devcluster.storage import Storage

from . import writes

# Merges lists of tolerations (pkg/util/tolerations).

_MOST_COMPARED: Final = 500


def merged(first: list[JSON], second: list[JSON]) -> list[JSON]:
    """Return the tolerations of both lists, without those that others cover.

    Very long lists are not reduced: the cost grows with the square of their length.
    """
    both, kept = [*first, *second], list[JSON]()
    if len(both) > _MOST_COMPARED:
        return both
    for number, each in enumerate(both):
        later = both[number + 1 :]
        is_covered = any(_covers(other, each) for other in kept) or any(
            other != each and _covers(other, each) for other in later
        )
        if not is_covered:
            kept.append(each)
    return kept


def _covers(wide: JSON, narrow: JSON) -> bool:
    if wide == narrow:
        return True
    operator = wide.get("operator", "Equal")
    covers_all_keys = not wide.get("key") and operator == "Exists"
    if wide.get("key") != narrow.get("key") and not covers_all_keys:
        return False
    if wide.get("effect") not in (None, "", narrow.get("effect")):
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator == "Equal":
        is_equal = narrow.get("operator", "Equal") == "Equal"
        return bool(is_equal and wide.get("value") == narrow.get("value"))
    return bool(operator == "Exists")


# The admission plugin DefaultTolerationSeconds.

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_EXECUTE: Final = "NoExecute"
_SECONDS: Final = 300


@writes.rule(
    "DefaultTolerationSeconds",
    writes.CREATE | writes.UPDATE,
    *writes.PODS,
    changes=True,
    sees_own_writes=True,
)
def default_toleration_seconds(write: Write, _: writes.Parts) -> None:
    """Let a pod stay for five minutes on a node that does not answer.

    A pod with its own tolerations for these taints is not changed.
    """
    spec = writes.spec_of(write)
    given = spec.get("tolerations") or []
    added = [_toleration(key) for key in _TAINTS if not _tolerates(given, key)]
    if added:
        spec["tolerations"] = [*given, *added]


def _tolerates(tolerations: list[JSON], key: str) -> bool:
    return any(
        each.get("key") in (None, "", key)
        and each.get("effect") in (None, "", _NO_EXECUTE)
        for each in tolerations
    )


def _toleration(key: str) -> JSON:
    return {
        "key": key,
        "operator": "Exists",
        "effect": _NO_EXECUTE,
        "tolerationSeconds": _SECONDS,
    }


# The admission plugin TaintNodesByCondition.

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@writes.rule("TaintNodesByCondition", writes.CREATE, ("", "nodes", ""), changes=True)
def taint_nodes_by_condition(write: Write, _: writes.Parts) -> None:
    """Taint a new node as not ready; the node lifecycle controller removes the taint.

    The nodes of the development cluster itself have no such taint: they work without
    that controller.
    """
    taints = writes.spec_of(write).get("taints") or []
    if not any(_NOT_READY.items() <= each.items() for each in taints):
        writes.spec_of(write)["taints"] = [*taints, dict(_NOT_READY)]


# The admission plugin PodTopologyLabels, for pods that name their node themselves.


@writes.rule(
    "PodTopologyLabels", writes.CREATE, *writes.PODS, changes=True, sees_own_writes=True
)
def pod_topology_labels(write: Write, parts: writes.Parts) -> None:
    """Give a pod the zone and the region of its node."""
    if node := writes.spec_of(write).get("nodeName"):
        metadata = writes.object_of(write)["metadata"]
        metadata.update(labelled_by_node(metadata, node, parts.storage))


# The admission plugin Priority: the priority of a new pod, and the default class.

_SCHEDULING: Final = "scheduling.k8s.io"
_PRIORITY_CLASSES: Final = "priorityclasses"
_COMPUTED: Final = "from the given PriorityClass name"
_CONTROLLER: Final = (
    "must not be provided in pod spec; priority admission controller computed"
)


class Priority(writes.BuiltInPlugin):
    """Gives a pod the priority of its class; there is one default class at most."""

    name: ClassVar = "Priority"
    targets: ClassVar = frozenset(
        (("", "pods", ""), (_SCHEDULING, _PRIORITY_CLASSES, ""))
    )
    covers_own_writes: ClassVar = True
    mutates: ClassVar = writes.CREATE | writes.UPDATE
    validates: ClassVar = writes.CREATE | writes.UPDATE

    def mutate(self, write: Write) -> None:
        """Fill in a pod's priority; an update keeps it. Raises Refusal."""
        if not writes.concerns(write, "", "pods"):
            return
        if write.operation is Operation.CREATE:
            self._set_priority(write)
        elif write.old is not None:
            for name in ("priority", "preemptionPolicy"):
                if name in write.old["spec"]:
                    writes.spec_of(write).setdefault(name, write.old["spec"][name])

    def validate(self, write: Write) -> None:
        """Raise Refusal if a second class would be the default class."""
        if not writes.concerns(write, _SCHEDULING, _PRIORITY_CLASSES):
            return
        found = writes.object_of(write)
        default = find_priority_class(self._storage, "")
        if default is None or not found.get("globalDefault"):
            return
        name = default["metadata"]["name"]
        is_new = write.operation is Operation.CREATE
        if is_new or name != found["metadata"]["name"]:
            why = "is already marked as default. Only one default can exist"
            raise writes.refused(write, f"PriorityClass {name} {why}")

    def _set_priority(self, write: Write) -> None:
        spec = writes.spec_of(write)
        name = spec.get("priorityClassName", "")
        found = find_priority_class(self._storage, name)
        if found is None and name:
            raise writes.refused(write, f"no PriorityClass with name {name} was found")
        if found is None:
            found = {"value": 0, "preemptionPolicy": LOWER_PRIORITY}
        elif not name:
            spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = found["value"], found["preemptionPolicy"]
        if spec.get("priority", value) != value:
            given = f"the integer value of priority ({spec['priority']}) "
            raise writes.refused(write, f"{given}{_CONTROLLER} {value} {_COMPUTED}")
        if spec.get("preemptionPolicy", policy) != policy:
            given = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) "
            )
            raise writes.refused(write, f"{given}{_CONTROLLER} {policy} {_COMPUTED}")
        spec |= {"priority": value, "preemptionPolicy": policy}


# The admission plugin RuntimeClass: overhead and scheduling of a pod's runtime.

_DIFFERENT: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)
_WITHOUT_CLASS: Final = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class RuntimeClass(writes.BuiltInPlugin):
    """Gives a pod the overhead of its runtime class, and the nodes that have it."""

    name: ClassVar = "RuntimeClass"
    targets: ClassVar = writes.PODS
    mutates: ClassVar = writes.CREATE
    validates: ClassVar = writes.CREATE

    def mutate(self, write: Write) -> None:
        """Fill in the overhead, the node selector and the tolerations."""
        found, spec = self._class(write), writes.spec_of(write)
        if (fixed := _overhead(found)) is not None:
            if "overhead" in spec and amounts(spec["overhead"]) != amounts(fixed):
                raise writes.refused(write, _DIFFERENT)
            spec["overhead"] = dict(fixed)
        if scheduling := found.get("scheduling"):
            _restrict(write, spec, scheduling)

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the overhead is that of the class."""
        fixed, given = (
            _overhead(self._class(write)),
            writes.spec_of(write).get("overhead"),
        )
        if fixed is None and given is not None:
            raise writes.refused(write, _WITHOUT_CLASS)
        if fixed is not None and amounts(fixed) != amounts(given):
            raise writes.refused(write, _DIFFERENT)

    def _class(self, write: Write) -> JSON:
        """Return the class of a pod, {} for a pod without one; raises Refusal."""
        name = writes.spec_of(write).get("runtimeClassName")
        if name is None:
            return {}
        stored = self._storage.collection("runtimeclasses.node.k8s.io").get(("", name))
        if stored is None:
            raise writes.refused(
                write, f'pod rejected: RuntimeClass "{name}" not found'
            )
        return stored.obj


def _overhead(runtime_class: JSON) -> JSON | None:
    """Return the overhead that a class defines, `None` if it defines none."""
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _restrict(write: Write, spec: JSON, scheduling: JSON) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            where = "nodeSelector"
            raise writes.refused(
                write,
                f"conflict: runtimeClass.scheduling.{where}[{key}] = {value}; "
                f"pod.spec.{where}[{key}] = {selector[key]}",
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    given = spec.get("tolerations") or []
    if tolerations := merged(given, scheduling.get("tolerations") or []):
        spec["tolerations"] = tolerations


# The admission plugin JobValidation: the number of pods of a gang does not change.

_JOBS: Final = ("batch", "jobs", "")


@writes.rule("JobValidation", writes.UPDATE, _JOBS, sees_own_writes=True)
def job_validation(write: Write, parts: writes.Parts) -> None:
    """Refuse a new parallelism of a job whose group of pods is a gang.

    Upstream: plugin/pkg/admission/job.
    """
    old, new = write.old, writes.object_of(write)
    if old is None or old["spec"].get("parallelism") == new["spec"].get("parallelism"):
        return
    for group in _groups_of(old, parts.storage):
        if "gang" in group["spec"]["schedulingPolicy"]:
            why = "cannot change parallelism for a Job referencing gang-scheduled"
            raise writes.refused(write, f'{why} PodGroup "{group["metadata"]["name"]}"')


def _groups_of(job: JSON, storage: Storage) -> list[JSON]:
    """Return the group that the template names, or else those of the job."""
    groups = storage.collection("podgroups.scheduling.k8s.io")
    namespace = job["metadata"]["namespace"]
    named = job["spec"]["template"]["spec"].get("schedulingGroup") or {}
    if (name := named.get("podGroupName")) is not None:
        stored = groups.get((namespace, name))
        return [] if stored is None else [stored.obj]
    return [
        each.obj
        for each in groups
        if each.obj["metadata"]["namespace"] == namespace
        and _is_controlled_by(each.obj, job["metadata"]["uid"])
    ]


def _is_controlled_by(obj: JSON, uid: str) -> bool:
    return any(
        each.get("controller") and each["uid"] == uid
        for each in obj["metadata"].get("ownerReferences") or ()
    )


# The volume with the token of a pod's service account (TokenVolumeSource).

_PREFIX: Final = "kube-api-access-"
_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFETIME: Final = 3607
"""Seconds that a token is valid; upstream recognizes mounted tokens by this number."""


def mount_token(spec: JSON, suffix: Callable[[], str]) -> None:
    """Mount the token into each container without another mount at its path.

    `suffix` makes the end of the volume's name.
    """
    containers = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if _PATH
        not in {each.get("mountPath") for each in container.get("volumeMounts") or ()}
    ]
    volumes = spec.get("volumes") or []
    names = [each.get("name", "") for each in volumes]
    found = next((each for each in names if each.startswith(_PREFIX)), None)
    if not containers:
        return
    name = found or _PREFIX + suffix()
    for container in containers:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if found is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _source()}]


def _source() -> JSON:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 420,
    }


# The admission plugin ServiceAccount: the identity of a new pod.

_ACCOUNTS: Final = "serviceaccounts"
_DEFAULT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_PATIENCE: Final = 1.5
"""Seconds that a pod waits for the default account of its namespace.

Upstream looks ten times, every 100 to 200 ms: a controller makes this account.
"""


class ServiceAccount(writes.BuiltInPlugin):
    """Gives a new pod a service account that exists, its token and its pull secrets."""

    name: ClassVar = "ServiceAccount"
    targets: ClassVar = writes.PODS
    mutates: ClassVar = writes.CREATE
    validates: ClassVar = writes.CREATE

    def mutate(self, write: Write) -> None:
        """Fill in the account, token and pull secrets; raises Refusal and Pending."""
        if _MIRROR in writes.annotations_of(writes.object_of(write)):
            return
        spec = writes.spec_of(write)
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec.get("serviceAccount") or _DEFAULT
        spec["serviceAccount"] = spec["serviceAccountName"]
        account = self._account(write, spec["serviceAccountName"])
        if _mounts_token(spec, account):
            mount_token(spec, partial(self._suffix, write.submission))
        if not spec.get("imagePullSecrets") and (
            secrets := account.get("imagePullSecrets")
        ):
            spec["imagePullSecrets"] = [dict(each) for each in secrets]

    def validate(self, write: Write) -> None:
        """Raise Refusal for forbidden references of the pod."""
        spec = writes.spec_of(write)
        if _MIRROR in writes.annotations_of(writes.object_of(write)):
            problem = _wrong_in_mirror(spec)
        else:
            account = self._account(write, spec.get("serviceAccountName", ""))
            enforces = writes.annotations_of(account).get(_ENFORCE) in _TRUE
            problem = next(_foreign_secrets(spec, account), "") if enforces else ""
        if problem:
            raise writes.refused(write, problem)

    def _account(self, write: Write, name: str) -> JSON:
        """Return a service account; raises Pending while a controller may create it."""
        key = (write.namespace, name)
        stored = self._storage.collection(_ACCOUNTS).get(key)
        if stored is not None:
            return stored.obj
        submission = write.submission
        if submission and name == _DEFAULT and not submission.recall(_ACCOUNTS):
            raise Pending(partial(self._wait_for, submission, key))
        why = f"error looking up service account {write.namespace}/{name}: "
        raise writes.refused(write, f'{why}serviceaccount "{name}" not found')

    async def _wait_for(self, submission: Submission, key: tuple[str, str]) -> None:
        accounts = self._storage.collection(_ACCOUNTS)
        watcher = accounts.watch(accounts.version)
        try:
            async with asyncio.timeout(_PATIENCE):
                while accounts.get(key) is None:
                    await watcher.wait()
                    watcher.take()
        except TimeoutError:
            submission.remember(_ACCOUNTS, value=True)
        finally:
            watcher.close()

    def _suffix(self, submission: Submission | None) -> str:
        """Return the end of a volume's name, the same in all attempts of a request."""

        def make() -> str:
            return safe_encode(self._parts.rng.randrange(10**4, 10**5))

        return submission.once("token volume", make) if submission else make()


def _mounts_token(spec: JSON, account: JSON) -> bool:
    """Tell whether a pod gets its token: its field decides before the account's."""
    field = "automountServiceAccountToken"
    wanted = spec.get(field, account.get(field))
    return True if wanted is None else bool(wanted)


def _wrong_in_mirror(spec: JSON) -> str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if spec.get("imagePullSecrets") or any(True for _ in _secrets(spec)):
        return "a mirror pod may not reference secrets"
    sources = [
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any("serviceAccountToken" in each for each in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _secrets(spec: JSON) -> Iterator[tuple[str, str]]:
    """Yield the secrets that a pod uses, each after the beginning of a message."""
    for volume in spec.get("volumes") or ():
        if name := (volume.get("secret") or {}).get("secretName"):
            yield f'volume with secret.secretName="{name}"', name
    for field, called in (
        ("initContainers", "init container"),
        ("containers", "container"),
    ):
        for container in spec.get(field) or ():
            about = f"{called} {container.get('name', '')}"
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
                if name := reference.get("name"):
                    what = f"with envVar {variable.get('name', '')} referencing "
                    yield f'{about} {what}secret.secretName="{name}"', name
            for source in container.get("envFrom") or ():
                if name := (source.get("secretRef") or {}).get("name"):
                    what = f'with envFrom referencing secret.secretName="{name}"'
                    yield f"{about} {what}", name


def _foreign_secrets(spec: JSON, account: JSON) -> Iterator[str]:
    """Yield why a pod may not use a secret that its account does not list."""
    who = account["metadata"]["name"]
    mountable = {each.get("name") for each in account.get("secrets") or ()}
    for what, secret in _secrets(spec):
        if secret not in mountable:
            why = f"because service account {who} does not reference that secret"
            yield f"{what} is not allowed {why}"
    listed = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for number, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name") not in listed:
            yield (
                f'imagePullSecrets[{number}].name="{each.get("name", "")}" is not '
                f"allowed because service account {who} does not reference that "
                "imagePullSecret"
            )


PLUGINS: Final = (
    default_toleration_seconds,
    job_validation,
    pod_topology_labels,
    taint_nodes_by_condition,
    Priority,
    RuntimeClass,
    ServiceAccount,
)
