"""Removes fields from an object that a configuration no longer has.

Upstream: structured-merge-diff, merge/update.go (prune).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from controller_manager.api.json_objects import JSON

from .comparison import fields_of
from .entries import Owned
from .field_set import FieldSet, difference, intersection, union, with_named_fields
from .field_type import FieldType
from .merging import without


class Version(NamedTuple):
    """One version of a kind: the type of its objects, and the conversions.

    `shown` makes an object of this version from a stored one, `stored` the reverse.
    """

    api_version: str
    type: FieldType
    shown: Callable[[JSON], JSON]
    stored: Callable[[JSON], JSON]

    def fields(self, obj: JSON) -> FieldSet:
        """Return the fields of an object, and those that have fields themselves."""
        return self.named(fields_of(obj, self.type))

    def named(self, fields: FieldSet) -> FieldSet:
        """Return a set with the declared fields that have members inside of them."""
        return with_named_fields(fields, self.type)


class Pruning(NamedTuple):
    """Removes fields that one manager had applied and no manager owns now.

    `version` is that of the objects; `find` returns other versions of the kind.
    """

    version: Version
    find: Callable[[str], Version | None]

    def pruned(self, merged: JSON, last: Owned, owners: Iterable[Owned]) -> JSON:
        """Return `merged` without fields that only the `last` configuration had.

        `owners` are all others, and the manager with its new configuration.
        """
        version = self._of(last.api_version)
        if version is None or not last.fields:
            return merged
        before = self._converted(merged, self.version, version)
        named = version.named(last.fields)
        found = without(before, named, version.type)
        found = self._with_owned(before, found, version, owners)
        gone = difference(version.fields(before), version.fields(found))
        found = without(before, intersection(gone, named), version.type)
        return self._converted(found, version, self.version)

    def _with_owned(
        self, before: JSON, found: JSON, version: Version, owners: Iterable[Owned]
    ) -> JSON:
        """Return `found` with the fields of `before` that a manager owns."""
        managed: dict[str, FieldSet] = {version.api_version: {}}
        for owned in owners:
            known = managed.get(owned.api_version, {})
            managed[owned.api_version] = union(known, owned.fields)
        for name, fields in managed.items():
            other = self._of(name)
            if other is None:
                continue
            was = self._converted(before, version, other)
            now = self._converted(found, version, other)
            kept = union(other.fields(now), other.named(fields))
            now = without(was, difference(other.fields(was), kept), other.type)
            found = self._converted(now, other, version)
        return found

    def _of(self, api_version: str) -> Version | None:
        if api_version == self.version.api_version:
            return self.version
        return self.find(api_version)

    def _converted(self, obj: JSON, version: Version, other: Version) -> JSON:
        if version.api_version == other.api_version:
            return obj
        return other.shown(version.stored(obj))
