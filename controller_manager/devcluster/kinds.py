"""The resources that the server has: one row each.

A new resource is a new row: storage, discovery, validation of types, lists,
watches, patches and tables then work. Rules of its own (defaults, validation,
columns) are keyed by kind in `defaults`, `validation` and `tables`.
"""

from dataclasses import dataclass
from typing import Any, Final

ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
_STATUS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource, as discovery shows it."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource.

    `model` names its type in kubernetes_asyncio, empty for those without.
    `has_generation` says that changes of its spec are counted,
    `returns_deleted` that DELETE answers with the object, and
    `orphans_dependents` that it spares them unless told otherwise. An
    `is_custom` resource comes from a definition, and goes with it.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    model: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_generation: bool = False
    returns_deleted: bool = False
    orphans_dependents: bool = False
    is_custom: bool = False
    singular_name: str = ""

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """The singular name."""
        return self.singular_name or self.kind.lower()

    @property
    def is_stored(self) -> bool:
        """Whether there are objects, rather than answers only."""
        return "list" in self.verbs and "watch" in self.verbs

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name."""
        return next((each for each in self.subresources if each.name == name), None)

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return self.subresource("status") is not None


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _STATUS)


_SCALE: Final = Subresource("scale", "Scale", _STATUS, "autoscaling", "v1")


def _workload(
    kind: str, plural: str, short: str, *, scales: bool = True, group: str = "apps"
) -> Kind:
    subresources = (_SCALE, _status(kind)) if scales else (_status(kind),)
    return Kind(
        group,
        "v1",
        kind,
        plural,
        model=f"V1{kind}",
        short_names=(short,) if short else (),
        categories=("all",),
        subresources=subresources,
        has_generation=True,
        orphans_dependents=kind in ("Job", "ReplicationController"),
    )


_POD_SUBRESOURCES: Final = (
    Subresource("attach", "PodAttachOptions", ("create", "get")),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod", _STATUS),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    Subresource(
        "proxy", "PodProxyOptions", ("create", "delete", "get", "patch", "update")
    ),
    Subresource("resize", "Pod", _STATUS),
    Subresource("status", "Pod", _STATUS),
)


def _proxy(kind: str) -> Subresource:
    return Subresource("proxy", kind, ("create", "delete", "get", "patch", "update"))


def _core(kind: str, plural: str, **more: Any) -> Kind:
    short = more.pop("short", "")
    return Kind(
        "",
        "v1",
        kind,
        plural,
        model=more.pop("model", f"V1{kind}"),
        short_names=(short,) if short else (),
        **more,
    )


def _rbac(kind: str, *, namespaced: bool) -> Kind:
    return Kind(
        "rbac.authorization.k8s.io",
        "v1",
        kind,
        f"{kind.lower()}s",
        namespaced=namespaced,
        model=f"V1{kind}",
    )


KINDS: Final = (
    _core("Binding", "bindings", verbs=("create",)),
    _core(
        "ComponentStatus",
        "componentstatuses",
        namespaced=False,
        verbs=("get", "list"),
        short="cs",
    ),
    _core("ConfigMap", "configmaps", short="cm"),
    _core("Endpoints", "endpoints", short="ep"),
    _core("Event", "events", short="ev", model="CoreV1Event"),
    _core("LimitRange", "limitranges", short="limits"),
    _core(
        "Namespace",
        "namespaces",
        namespaced=False,
        short="ns",
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=(
            Subresource("finalize", "Namespace", ("update",)),
            _status("Namespace"),
        ),
        returns_deleted=True,
    ),
    _core(
        "Node",
        "nodes",
        namespaced=False,
        short="no",
        subresources=(_proxy("NodeProxyOptions"), _status("Node")),
    ),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short="pvc",
        subresources=(_status("PersistentVolumeClaim"),),
        returns_deleted=True,
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short="pv",
        subresources=(_status("PersistentVolume"),),
        returns_deleted=True,
    ),
    _core(
        "Pod",
        "pods",
        short="po",
        categories=("all",),
        subresources=_POD_SUBRESOURCES,
        has_generation=True,
        returns_deleted=True,
    ),
    _core("PodTemplate", "podtemplates", has_generation=True),
    _workload("ReplicationController", "replicationcontrollers", "rc", group=""),
    _core(
        "ResourceQuota",
        "resourcequotas",
        short="quota",
        subresources=(_status("ResourceQuota"),),
        returns_deleted=True,
    ),
    _core("Secret", "secrets"),
    _core(
        "ServiceAccount",
        "serviceaccounts",
        short="sa",
        subresources=(
            Subresource(
                "token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"
            ),
        ),
        returns_deleted=True,
    ),
    _core(
        "Service",
        "services",
        short="svc",
        categories=("all",),
        subresources=(_proxy("ServiceProxyOptions"), _status("Service")),
        returns_deleted=True,
    ),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        model="V1CustomResourceDefinition",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(_status("CustomResourceDefinition"),),
        has_generation=True,
    ),
    Kind(
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        model="V1ControllerRevision",
    ),
    _workload("DaemonSet", "daemonsets", "ds", scales=False),
    _workload("Deployment", "deployments", "deploy"),
    _workload("ReplicaSet", "replicasets", "rs"),
    _workload("StatefulSet", "statefulsets", "sts"),
    Kind(
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        "tokenreviews",
        namespaced=False,
        model="V1TokenReview",
        verbs=("create",),
    ),
    Kind(
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        namespaced=False,
        model="V1SelfSubjectAccessReview",
        verbs=("create",),
    ),
    Kind(
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        namespaced=False,
        model="V1SubjectAccessReview",
        verbs=("create",),
    ),
    _workload("CronJob", "cronjobs", "cj", scales=False, group="batch"),
    _workload("Job", "jobs", "", scales=False, group="batch"),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", model="V1Lease"),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        model="V1PodDisruptionBudget",
        short_names=("pdb",),
        subresources=(_status("PodDisruptionBudget"),),
        has_generation=True,
    ),
    _rbac("ClusterRole", namespaced=False),
    _rbac("ClusterRoleBinding", namespaced=False),
    _rbac("Role", namespaced=True),
    _rbac("RoleBinding", namespaced=True),
)


class Catalogue:
    """All kinds, by group version and by name."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS) -> None:
        """Take the rows."""
        self._by_version: dict[tuple[str, str], dict[str, Kind]] = {}
        self.generation = 0
        """Counts the changes of what is served."""
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve one more resource."""
        self.generation += 1
        self._by_version.setdefault((kind.group, kind.version), {})[kind.plural] = kind

    def remove(self, kind: Kind) -> None:
        """Serve a resource no longer."""
        kinds = self._by_version.get((kind.group, kind.version), {})
        if kinds.pop(kind.plural, None) is not None:
            self.generation += 1
        if not kinds:
            self._by_version.pop((kind.group, kind.version), None)

    def group_versions(self) -> list[tuple[str, str]]:
        """Return all (group, version), the core group first."""
        return list(self._by_version)

    def kinds(self, group: str, version: str) -> list[Kind] | None:
        """Return the kinds of a group version, `None` if it is not served."""
        found = self._by_version.get((group, version))
        return list(found.values()) if found is not None else None

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return one kind by its plural name."""
        return self._by_version.get((group, version), {}).get(plural)

    def all(self) -> list[Kind]:
        """Return every kind."""
        return [kind for kinds in self._by_version.values() for kind in kinds.values()]

    def of(self, api_version: str, kind_name: str) -> Kind | None:
        """Return the kind that an object's apiVersion and kind name."""
        group, _, version = api_version.rpartition("/")
        kinds = self._by_version.get((group, version), {}).values()
        return next((kind for kind in kinds if kind.kind == kind_name), None)
