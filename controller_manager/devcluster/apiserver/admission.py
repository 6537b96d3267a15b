"""Admission: plugins change and check the objects that clients write.

Upstream: k8s.io/apiserver/pkg/admission. A plugin is synchronous. A plugin that must
wait for an answer, such as that of a webhook, raises `Pending`. Then the server stores
nothing, waits for the answer and attempts the write again from the start. So the server
stores a write only if all answers are about the present objects, as in upstream's
GuaranteedUpdate.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

from controller_manager.api.json_objects import JSON

from .kind import Answers, Kind
from .security import ANONYMOUS, User

T = TypeVar("T")
Target = tuple[str, str, str]
"""The group and the plural name of a resource, and a subresource or ""."""

_MOST_FOUND: Final = 4096

_OPTIONS: Final = {
    "CREATE": ("CreateOptions", ("fieldManager", "fieldValidation")),
    "UPDATE": ("UpdateOptions", ("fieldManager", "fieldValidation")),
    "DELETE": ("DeleteOptions", ()),
}
"""The kind of the options of an operation, and its query parameters."""


class Operation(StrEnum):
    """The operation of a request on an object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(slots=True)
class Submission(Answers):
    """A client's request to write, which may be attempted several times.

    `kind` is that of the path, in the version that the client named. `now` is the time
    of the request: it stays the same in all attempts. `body_options` are the
    DeleteOptions of a body.
    """

    kind: Kind
    user: User
    now: datetime
    query: Mapping[str, str] = field(default_factory=dict)
    body_options: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """Texts for the Warning headers of the answer."""

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned in the first attempt."""
        if key not in self.found:
            self.found[key] = make()
        found: T = self.found[key]
        return found

    def warn(self, text: str) -> None:
        """Add a warning to the answer once, if it can be the value of a header."""
        if text not in self.warnings and text.isprintable():
            self.warnings.append(text)


@dataclass(slots=True)
class Write:
    """One write, as admission sees it (admission.Attributes).

    `kind` is the kind as it is stored; `obj` and `old` are in its version, with the
    defaults filled in. For a subresource with a body of its own (``scale``,
    ``eviction``, ``binding``, ``token``) they are that body, and `subresource` names
    it. `obj` is `None` for DELETE, `old` for CREATE and CONNECT. `name` is "" if the
    server will generate the name, and for each object of a deleted collection. A write
    without a `submission` comes from a part of the development cluster itself.
    """

    operation: Operation
    kind: Kind
    namespace: str
    name: str
    obj: JSON | None
    old: JSON | None = None
    subresource: str = ""
    submission: Submission | None = None
    is_dry_run: bool = False
    wants_again: bool = False
    """A mutating plugin sets it if the other plugins must see the object again."""

    is_again: bool = False
    """True while the mutating plugins see the object for the second time."""

    notes: dict[str, Any] = field(default_factory=dict)
    """Data that plugins keep from the first to the second time, by plugin name."""

    @property
    def user(self) -> User:
        """The user who writes; anonymous for a part of the cluster."""
        return self.submission.user if self.submission else ANONYMOUS

    @property
    def requested(self) -> Kind:
        """The kind, in the version of the request."""
        return self.submission.kind if self.submission else self.kind

    @property
    def shown_name(self) -> str:
        """The name for messages; for a name that will be generated, its prefix."""
        metadata = (self.obj or self.old or {}).get("metadata", {})
        name = self.name or metadata.get("name") or metadata.get("generateName")
        return str(name or "")

    @property
    def body_kind(self) -> tuple[str, str, str] | None:
        """The group, version and kind of a subresource's own body, if it has one."""
        found = self.kind.subresource(self.subresource) if self.subresource else None
        if found is None or found.kind == self.kind.kind:
            return None
        group = found.group or ("" if found.version else self.kind.group)
        return group, found.version or self.kind.version, found.kind

    def warn(self, text: str) -> None:
        """Add a warning to the answer."""
        if self.submission:
            self.submission.warn(text)

    def options(self) -> JSON | None:
        """Return the options of the operation as upstream's reviews show them."""
        if self.operation not in _OPTIONS or self.submission is None:
            return None
        kind, parameters = _OPTIONS[self.operation]
        query, body = self.submission.query, self.submission.body_options
        head = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        given = {name: query[name] for name in parameters if query.get(name)}
        rest = {k: v for k, v in body.items() if k not in head}
        dry_run = {"dryRun": ["All"]} if self.is_dry_run else {}
        return {**head, **rest, **dry_run, **given}


class Plugin:
    """An admission plugin; it overrides the methods that it needs.

    Its methods raise Refusal to refuse the write. Only `charge` may change the storage,
    because the server may attempt a write several times.
    """

    name: ClassVar[str] = ""
    """The name in ``--enable-admission-plugins``."""

    covers_own_writes: ClassVar[bool] = False
    """True if it also sees the writes of parts of the development cluster."""

    mutates: ClassVar[frozenset[Operation]] = frozenset()
    """The operations for which the server calls `mutate`."""

    validates: ClassVar[frozenset[Operation]] = frozenset()
    """The operations for which the server calls `validate`."""

    targets: ClassVar[frozenset[Target]] = frozenset()
    """The resources, with their subresources, that it handles; empty for all."""

    def acts(self) -> bool:
        """Tell whether the plugin has work in the present state of the cluster."""
        return True

    def mutate(self, write: Write) -> None:
        """Change ``write.obj``, in place or by another object (Admit).

        The object has its defaults. The parts that a plugin adds must be complete: the
        server fills in no defaults later. Only names and types of fields are validated.
        """

    def validate(self, write: Write) -> None:
        """Check ``write.obj``, which is valid and must not be changed (Validate)."""

    def charge(self, write: Write) -> None:
        """Charge a write to its quota. No other check refuses the write after this one.

        The server does not call it in a dry run.
        """


class Chain:
    """The plugins in their order, which is upstream's AllOrderedPlugins."""

    def __init__(self, plugins: Iterable[Plugin] = ()) -> None:
        self.plugins = tuple(plugins)
        self._found: dict[tuple[object, ...], tuple[Plugin, ...]] = {}
        self._charging = tuple(
            each for each in self.plugins if type(each).charge is not Plugin.charge
        )

    def mutates(self, write: Write) -> bool:
        """Tell whether a plugin may change the object of a write."""
        return any(each.acts() for each in self._of("mutates", write))

    def mutate(self, write: Write) -> None:
        """Let the plugins change the object; raises Refusal, and Pending.

        If a plugin asks for it, each plugin gets the changed object once more
        (admission/reinvocation.go).
        """
        plugins = self._of("mutates", write)
        for plugin in plugins:
            plugin.mutate(write)
        if write.wants_again:
            write.is_again = True
            for plugin in plugins:
                plugin.mutate(write)

    def validate(self, write: Write) -> None:
        """Let the plugins check the object; raises Refusal, and Pending."""
        for plugin in self._of("validates", write):
            plugin.validate(write)

    def charge(self, write: Write) -> None:
        """Let the plugins charge the write; raises Refusal."""
        for plugin in self._charging:
            if write.submission is not None or plugin.covers_own_writes:
                plugin.charge(write)

    def _of(self, phase: str, write: Write) -> tuple[Plugin, ...]:
        kind, is_own = write.kind, write.submission is None
        target = (kind.group, kind.plural, write.subresource)
        key = (phase, write.operation, is_own, *target)
        found = self._found.get(key)
        if found is None:
            found = tuple(
                each
                for each in self.plugins
                if write.operation in getattr(each, phase)
                and (each.covers_own_writes or not is_own)
                and (not each.targets or target in each.targets)
            )
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()  # custom resources come and go
            self._found[key] = found
        return found
