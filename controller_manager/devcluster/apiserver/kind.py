"""A resource: the facts that paths and discovery show, the catalogue, selectors."""

import re
from collections.abc import (
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from controller_manager.api import selectors
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import models
from controller_manager.devcluster.scheme.statuses import Cause, bad_request, shown
from controller_manager.devcluster.storage import Stored
from controller_manager.options.gates import FeatureGates, Gate

from .strategy import Strategy

# Answers for which a request waits, such as those of webhooks.

T = TypeVar("T")


class Pending(Exception):
    """A request waits for an answer.

    `wait` returns once the answer is remembered. Then the server attempts the same
    again.
    """

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a request waits for an answer")
        self.wait = wait


@dataclass(slots=True)
class Answers:
    """The answers that the attempts of one request have got so far."""

    found: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def remember(self, key: Hashable, value: Any) -> None:
        """Keep an answer for the next attempts."""
        self.found[key] = value

    def recall(self, key: Hashable) -> Any:
        """Return the answer of an earlier attempt, `None` if there is none."""
        return self.found.get(key)


async def settled(read: Callable[[], T]) -> T:
    """Return what `read` returns, once all answers that it needs are there."""
    while True:
        try:
            return read()
        except Pending as pending:
            waiting = pending
        await waiting.wait()


# A resource: the facts that paths and discovery show; and the catalogue of all.

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
READ_AND_WRITE: Final = ("get", "patch", "update")
"""The verbs of a subresource that is part of its object."""

_GENERIC: Final = Strategy()
_zeros = cache(models.zeros_of)
_condition_times = cache(models.condition_times)


@cache
def _type_name(group: str, version: str, kind: str) -> str | None:
    return models.built_in().find(f"{group}/{version}" if group else version, kind)


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource: its entry in discovery, and the types of its bodies.

    `replace` merges the old object and the new object of a PUT, and `validate` checks
    the change in place of the strategy. Without `replace`, and without a handler of a
    POST, requests get 501; ``status`` and ``scale`` work for every kind.
    `refusal` is the message then, with ``{name}`` for the name of the object. If it
    `takes_path`, a request may have more segments after it, and any method.
    """

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    replace: Callable[[JSON, JSON], JSON] | None = None
    validate: Callable[[JSON, JSON], Sequence[Cause]] | None = None
    takes_path: bool = False
    refusal: str = ""

    @property
    def api_version(self) -> str:
        """The apiVersion of the body, that of the core group without a version."""
        version = self.version or "v1"
        return f"{self.group}/{version}" if self.group else version

    @property
    def type_name(self) -> str | None:
        """The name of the model of its body, `None` if it takes no object."""
        return models.built_in().find(self.api_version, self.kind)


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """The paths of the fields that a scale shows, as names of fields.

    Without `selector`, the strategy returns the selector of the pods.
    """

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts objects of a version to the storage version, and back.

    Both functions return the fields besides ``kind`` and ``apiVersion``, and change
    nothing.
    """

    stored: "Kind"
    to_stored: Callable[[JSON], JSON]
    from_stored: Callable[[JSON], JSON]


class Converter(Protocol):
    """Converts the objects of a custom resource that has a conversion webhook.

    The methods raise Refusal if the webhook fails, and Pending to wait for it.
    """

    def within(self, answers: Answers) -> "Converter":
        """Return the same converter for one request, which keeps its answers."""

    def shown(self, stored: Stored) -> Stored:
        """Return a stored object in the version of the kind."""

    def all_shown(self, found: Sequence[Stored]) -> list[Stored]:
        """Return the items of a list in the version of the kind."""

    def kept(self, obj: JSON) -> JSON:
        """Return an object of the kind's version as it is stored."""

    def is_current(self, obj: JSON) -> bool:
        """Tell whether an object is stored in the version of today."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource.

    An `is_custom` resource comes from a CustomResourceDefinition, and is removed with
    it. A kind with a `conversion` is one more version of a kind that is stored in
    another version.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    strategy: Strategy = field(default=_GENERIC)
    is_custom: bool = False
    singular_name: str = ""
    list_name: str = ""
    conversion: Conversion | None = None
    converter: Converter | None = None
    other_versions: tuple[str, ...] = ()
    """More versions that are served; they differ in nothing but their name."""

    deprecation: str = ""
    """A warning in each answer about the kind."""

    gated: tuple[tuple[Gate, Strategy], ...] = ()
    """Strategies that replace `strategy` while a gate is enabled."""
    scale_paths: ScalePaths = ScalePaths()
    storage_version_hash: str = ""
    """Names the version in which objects are stored, in discovery."""

    api_version: str = field(init=False, repr=False, compare=False)
    """``apps/v1``, or ``v1`` for the core group."""
    resource: str = field(init=False, repr=False, compare=False)
    """``widgets.example.com``, or the plural name for the core group."""
    has_status: bool = field(init=False, repr=False, compare=False)
    """True if status is a subresource."""
    head: JSON = field(init=False, repr=False, compare=False)
    """The fields that come first in a stored object."""

    def __post_init__(self) -> None:
        """Find the facts that each request needs several times."""
        group = self.group
        api_version = f"{group}/{self.version}" if group else self.version
        facts = {
            "api_version": api_version,
            "head": {"kind": self.kind, "apiVersion": api_version},
            "resource": f"{self.plural}.{group}" if group else self.plural,
            "has_status": self.subresource("status") is not None,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def versions(self) -> "Iterator[Kind]":
        """Yield the kind, and the same kind in its other versions."""
        yield self
        same = Conversion(self, to_stored=_fields, from_stored=_fields)
        for version in self.other_versions:
            yield replace(self, version=version, other_versions=(), conversion=same)

    def within(self, answers: Answers) -> "Kind":
        """Return the kind for one request, whose conversions keep their answers."""
        if self.converter is None:
            return self
        return replace(self, converter=self.converter.within(answers))

    def with_features(self, features: FeatureGates) -> "Kind":
        """Return the kind with the strategy for these feature gates."""
        for gate, strategy in self.gated:
            if features.is_enabled(gate):
                return replace(self, strategy=strategy)
        return self

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults of `obj`, and the fields that are written when empty."""
        self.strategy.apply_defaults(obj)
        zeros = None if self.is_custom else _zeros(self.api_version, self.kind)
        if zeros is not None:
            zeros.fill(obj)

    @property
    def null_condition_times(self) -> tuple[str, ...]:
        """Condition times that are written as null when they are absent."""
        return () if self.is_custom else _condition_times(self.api_version, self.kind)

    @property
    def stored(self) -> "Kind":
        """The kind of the stored objects: this kind, unless it has a conversion."""
        return self.conversion.stored if self.conversion else self

    @property
    def type_name(self) -> str | None:
        """The name of its model in the schema, `None` for a custom resource."""
        if self.is_custom:
            return None
        return _type_name(self.group, self.version, self.kind)

    @property
    def singular(self) -> str:
        """The singular name."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of its lists."""
        return self.list_name or f"{self.kind}List"

    @property
    def is_stored(self) -> bool:
        """True if the server stores objects of the kind."""
        return "list" in self.verbs and "watch" in self.verbs

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource of that name."""
        for each in self.subresources:
            if each.name == name:
                return each
        return None


SCALE: Final = Subresource("scale", "Scale", READ_AND_WRITE, "autoscaling", "v1")


def _fields(obj: JSON) -> JSON:
    """Return the fields of an object that do not name its kind and version."""
    return {
        name: value for name, value in obj.items() if name not in ("kind", "apiVersion")
    }


def status_of(kind: str) -> Subresource:
    """Return the status subresource of a kind."""
    return Subresource("status", kind, READ_AND_WRITE)


@dataclass(frozen=True, slots=True)
class GatedKind:
    """A resource that is served only while a feature gate is enabled."""

    kind: Kind
    required_gate: Gate


def in_version(kind: Kind, stored: Stored) -> Stored:
    """Return an object with the version in which it was requested.

    The versions of a custom resource differ by their name and their schema
    (conversion strategy None), unless a webhook converts its objects: then it raises
    Refusal and Pending.
    """
    if kind.converter is not None:
        return kind.converter.shown(stored)
    if kind.is_custom:
        obj = kind.strategy.shown(stored)
        if obj is stored.obj and obj["apiVersion"] == kind.api_version:
            return stored
        return Stored(_headed(kind, obj), stored.version)
    if stored.obj["apiVersion"] == kind.api_version or not kind.conversion:
        return stored
    return Stored(
        _headed(kind, kind.conversion.from_stored(stored.obj)), stored.version
    )


def all_in_version(kind: Kind, found: Sequence[Stored]) -> list[Stored]:
    """Return the items of a list with the version in which it was requested.

    Raises Refusal and Pending, as `in_version`.
    """
    if kind.converter is not None:
        return kind.converter.all_shown(found)
    return [in_version(kind, each) for each in found]


def to_stored(kind: Kind, obj: JSON) -> JSON:
    """Return an object of a request in the version in which it is stored."""
    if not kind.conversion:
        return obj
    return _headed(kind.stored, kind.conversion.to_stored(obj))


def _headed(kind: Kind, obj: JSON) -> JSON:
    """Return `obj` with the kind and the version of `kind`."""
    head = kind.head
    return {**head, **{key: value for key, value in obj.items() if key not in head}}


class Catalogue:
    """All kinds, by group version and by name."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_version: dict[tuple[str, str], dict[str, Kind]] = {}
        self.generation = 0
        """The number of changes of the catalogue."""
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve one more resource."""
        self.generation += 1
        self._by_version.setdefault((kind.group, kind.version), {})[kind.plural] = kind

    def add_version(self, group: str, version: str) -> None:
        """Serve a group version, also if it has no kinds."""
        self.generation += 1
        self._by_version.setdefault((group, version), {})

    def remove(self, kind: Kind) -> None:
        """Stop serving a resource."""
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
        """Return the kind with an object's apiVersion and kind."""
        group, _, version = api_version.rpartition("/")
        kinds = self._by_version.get((group, version), {}).values()
        return next((kind for kind in kinds if kind.kind == kind_name), None)


# Label and field selectors of a list or watch.

_COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}


@dataclass(frozen=True, slots=True)
class _FieldTerm:
    path: tuple[str, ...]
    value: str
    equal: bool
    absent: str = ""
    fallback: tuple[str, ...] = ()

    def matches(self, obj: JSON) -> bool:
        found = _at(obj, self.path)
        if not found and self.fallback:
            found = _at(obj, self.fallback)
        if found is None:
            found = self.absent
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return (text == self.value) is self.equal


def _at(obj: JSON, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """The label and field selectors of a request.

    The fields are those of an object as the version of the request shows it, by `view`.
    """

    labels: selectors.Selector = selectors.EVERYTHING
    fields: tuple[_FieldTerm, ...] = ()
    view: Callable[[Stored], JSON] | None = None

    @property
    def is_everything(self) -> bool:
        """True if the selectors select every object."""
        return self.labels.is_empty and not self.fields

    def sees_same(self, one: JSON, other: JSON) -> bool:
        """Tell at once that two versions of an object have the same labels.

        Most changes do not touch them, and the versions share their labels. The answer
        is false if that needs a comparison.
        """
        labels = one["metadata"].get("labels")
        return not self.fields and labels is other["metadata"].get("labels")

    def matches(self, obj: JSON) -> bool:
        """Tell whether an object is selected."""
        labels = self.labels
        if labels is not selectors.EVERYTHING and not labels.matches(
            obj["metadata"].get("labels") or {}
        ):
            return False
        if not self.fields:
            return True
        shown = self.view(Stored(obj, 0)) if self.view else obj
        return all(term.matches(shown) for term in self.fields)


def parse_selection(kind: Kind, query: Mapping[str, str]) -> Selection:
    """Read labelSelector and fieldSelector; raises Refusal 400."""
    try:
        labels = selectors.parse_selector(query.get("labelSelector", ""))
    except selectors.SelectorError as error:
        raise bad_request(str(error)) from None
    fields = _parse_fields(kind, query.get("fieldSelector", ""))
    return Selection(labels, fields, kind.strategy.shown if kind.is_custom else None)


def _parse_fields(kind: Kind, text: str) -> tuple[_FieldTerm, ...]:
    """Read a field selector (fields/selector.go)."""
    terms = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name, operator, value = match.groups()
        path = _COMMON.get(name) or kind.strategy.fields_to_select().get(name)
        if path is None:
            raise bad_request(_unknown_field(kind, name))
        absent = kind.strategy.absent_fields.get(name, "")
        fallback = kind.strategy.fallback_fields.get(name, ())
        term = _FieldTerm(path, _unescaped(value), operator != "!=", absent, fallback)
        terms.append(term)
    return tuple(terms)


def _unescaped(value: str) -> str:
    """Return a value without its escapes, of backslash, comma and equals sign.

    Raises Refusal 400 for another escape, and for a sign that should be escaped.
    """
    for found in re.finditer(r"\\(.?)|[,=]", value, re.DOTALL):
        escape, escaped = found.group(), found.group(1)
        if escaped is None:
            why = f"unescaped character in value: {ord(escape)}"
            raise bad_request(f"invalid field selector: {why}")
        if escaped not in ("\\", ",", "="):
            why = f"invalid escape sequence: {escape}"
            raise bad_request(f"invalid field selector: {why}")
    return re.sub(r"\\(.)", r"\1", value)


def _unknown_field(kind: Kind, name: str) -> str:
    """Return the message about a field without a field selector.

    Built-in kinds with their own selectable fields have another message than the rest.
    """
    if kind.is_custom or kind.strategy.fields_to_select():
        return f"field label not supported: {name}"
    known = ", ".join(shown(each) for each in _COMMON)
    return f"{shown(name)} is not a known field selector: only {known}"


def exact_name(text: str) -> str:
    """Return the only name that a field selector allows, "" if it names none.

    Then a permission for objects of that name covers the list (requestinfo.go).
    """
    for part in text.split(","):
        match = re.fullmatch(r"metadata\.name==?([^=,/%]+)", part)
        if match and match.group(1) not in (".", ".."):
            return match.group(1)
    return ""
