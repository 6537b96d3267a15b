"""All kinds that a server has, by group version and by name."""

from collections.abc import Iterable

from controller_manager.devcluster.server.rest.kind import Kind


class Catalogue:
    """All kinds, by group version and by name."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        """Take the kinds that the server has from the start."""
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
