"""The paths of a kind, and the operations on them: verb, kind and name.

Upstream: apiserver/pkg/endpoints/installer.go and kube-openapi/pkg/builder3. A path has
the names ``{namespace}`` and ``{name}`` where requests have values.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.server.rest.kind import Kind, Subresource

_METHODS: Final = {
    "create": "post",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "get",
    "list": "get",
    "patch": "patch",
    "update": "put",
}
_ACTIONS: Final = {"create": "post", "update": "put"}
"""The actions of verbs that have another name in the documents."""

_NAMES: Final = {
    "deletecollection": "delete",
    "get": "read",
    "update": "replace",
    "watchlist": "watch",
}
"""The beginning of the names of operations, if it is not the verb."""

_DESCRIPTIONS: Final = {
    "create": "create {article} {kind}",
    "delete": "delete {article} {kind}",
    "deletecollection": "delete collection of {kind}",
    "get": "read {part}the specified {kind}",
    "list": "list or watch objects of kind {kind}",
    "patch": "partially update {part}the specified {kind}",
    "update": "replace {part}the specified {kind}",
    "watch": "watch changes to an object of kind {kind}. deprecated: use the 'watch' "
    "parameter with a list operation instead.",
    "watchlist": "watch individual changes to a list of {kind}. deprecated: use the "
    "'watch' parameter with a list operation instead.",
}

WATCH_EVENT: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"


class Operation(NamedTuple):
    """One operation: its verb, the kind of its path, and its subresource."""

    verb: str
    kind: Kind
    subresource: Subresource | None = None
    suffix: str = ""
    """The end of the name, such as ``ForAllNamespaces``."""

    @property
    def method(self) -> str:
        """The HTTP method, in lower case."""
        return _METHODS.get(self.verb, "get")

    @property
    def action(self) -> str:
        """The value of ``x-kubernetes-action``."""
        if self.connects:
            return "connect"
        return _ACTIONS.get(self.verb, self.verb)

    @property
    def connects(self) -> bool:
        """True if the operation opens a stream or proxies a request."""
        sub = self.subresource
        return sub is not None and not self.kind.is_custom and not self.model

    @property
    def group_version_kind(self) -> dict[str, str]:
        """The kind that the operation reads or writes."""
        kind, sub = self.kind, self.subresource
        if sub is None:
            return {"group": kind.group, "kind": kind.kind, "version": kind.version}
        group = sub.group or kind.group
        return {
            "group": group,
            "kind": sub.kind,
            "version": sub.version or kind.version,
        }

    @property
    def model(self) -> str | None:
        """The model of a subresource, `None` for the object and for a stream."""
        sub, kind = self.subresource, self.kind
        if sub is None or (kind.is_custom and not sub.group):
            return None
        gvk = self.group_version_kind
        group = f"{gvk['group']}/" if gvk["group"] else ""
        return built_in().find(f"{group}{gvk['version']}", gvk["kind"])

    @property
    def is_text(self) -> bool:
        """True if the answer is a text: a part of an object that is only read."""
        return self.subresource is not None and self.subresource.verbs == ("get",)

    @property
    def operation_id(self) -> str:
        """The name of the operation, such as ``listAppsV1NamespacedDeployment``."""
        kind, verb = self.kind, self.verb
        version = group_name(kind.group) + kind.version.capitalize()
        version = version[0].upper() + version[1:]
        parts = [_NAMES.get(verb, verb), version]
        if self.connects:
            parts = ["connect", version, self.method.capitalize()]
        if verb == "deletecollection":
            parts.append("Collection")
        if kind.namespaced and self.suffix[-10:] != "Namespaces":
            parts.append("Namespaced")
        sub = self.subresource.name.capitalize() if self.subresource else ""
        return "".join((*parts, kind.kind, sub, self.suffix))

    @property
    def description(self) -> str:
        """The description of the operation."""
        sub = self.subresource.name if self.subresource else ""
        kind = self.group_version_kind["kind"]
        if self.connects:
            return (
                f"connect {self.method.upper()} requests to {sub} of {self.kind.kind}"
            )
        if self.kind.is_custom and self.verb == "list":
            return f"list objects of kind {kind}"
        return _DESCRIPTIONS[self.verb].format(
            kind=self.kind.kind if sub else kind,
            part=f"{sub} of " if sub else "",
            article="an" if kind[0] in "AEIOU" else "a",
        )


def group_name(group: str) -> str:
    """Return the name of a group in names: ``rbacAuthorization``, ``core``."""
    first, *rest = (group or "core").removesuffix(".k8s.io").split(".")
    return first + "".join(each.capitalize() for each in rest)


def base_path(group: str, version: str) -> str:
    """Return the path of a group version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def operations_by_path(kind: Kind) -> Iterator[tuple[str, list[Operation]]]:
    """Yield the paths of a kind, each with its operations."""
    base, plural = base_path(kind.group, kind.version), kind.plural
    everywhere = "ForAllNamespaces"
    home = f"{base}/namespaces/{{namespace}}" if kind.namespaced else base
    if kind.namespaced and "list" in kind.verbs:
        yield f"{base}/{plural}", [Operation("list", kind, suffix=everywhere)]
    on_all = ("deletecollection", "list", "create")
    found = [Operation(each, kind) for each in on_all if each in kind.verbs]
    yield f"{home}/{plural}", found
    path = f"{home}/{plural}/{{name}}"
    on_one = ("delete", "get", "patch", "update")
    if found := [Operation(each, kind) for each in on_one if each in kind.verbs]:
        yield path, found
    for sub in kind.subresources:
        yield f"{path}/{sub.name}", [Operation(each, kind, sub) for each in sub.verbs]
    if "watch" in kind.verbs and not kind.is_custom:
        yield from _watches(kind, home.replace(base, f"{base}/watch", 1))


def _watches(kind: Kind, home: str) -> Iterator[tuple[str, list[Operation]]]:
    """Yield the paths of a kind that clients watched before lists could be watched."""
    if kind.namespaced:
        path = f"{base_path(kind.group, kind.version)}/watch/{kind.plural}"
        suffix = "ListForAllNamespaces"
        yield path, [Operation("watchlist", kind, suffix=suffix)]
    path = f"{home}/{kind.plural}"
    yield path, [Operation("watchlist", kind, suffix="List")]
    yield f"{path}/{{name}}", [Operation("watch", kind)]
