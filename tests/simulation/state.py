"""The content of the API server, as every client sees it."""

from dataclasses import dataclass, field

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.controlplane import APIServer
from controller_manager.devcluster.storage import Watcher
from tests.simulation.objects import path_of


@dataclass(frozen=True)
class State:
    """The objects of one API server, and which of them users orphaned."""

    server: APIServer
    orphaned: set[tuple[str, str]] = field(default_factory=set)
    """Pairs: the uid of an object that a user orphaned, and of its deleted owner."""

    _found: dict[str, Kind] = field(default_factory=dict)
    """Kinds that were looked up before; each may not be served any more."""

    def kind(self, plural: str) -> Kind:
        """Return the kind of objects with that plural name, e.g. "pods".

        Raises KeyError if there is none.
        """
        kind = self._served(plural)
        if kind is None:
            raise KeyError(plural)
        return kind

    def _served(self, plural: str) -> Kind | None:
        """Return a kind by its plural name, `None` if none is served."""
        found = self._found.get(plural)
        catalogue = self.server.catalogue
        if found and catalogue.find(found.group, found.version, plural) is found:
            return found
        for each in self._kinds():
            if each.plural == plural:
                self._found[plural] = each
                return each
        return None

    def _kinds(self) -> list[Kind]:
        return [each for each in self.server.catalogue.all() if each.is_stored]

    def stored(self, plural: str, namespace: str = "") -> list[JSON]:
        """Return all objects of a resource, or of one namespace, by name."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        found = [
            each.obj
            for each in collection
            if namespace in ("", each.obj["metadata"].get("namespace"))
        ]
        return sorted(found, key=path_of)

    def watch(self, plural: str) -> Watcher:
        """Return a watcher of all changes of a resource from now on."""
        collection = self.server.storage.collection(self.kind(plural).resource)
        return collection.watch(self.server.storage.version)

    def find(self, plural: str, namespace: str, name: str) -> JSON | None:
        """Return an object as it is stored, `None` if there is none."""
        kind = self._served(plural)
        if kind is None:
            return None
        collection = self.server.storage.collection(kind.resource)
        stored = collection.get((namespace, name))
        return stored.obj if stored is not None else None

    def everything(self, *without: str) -> list[JSON]:
        """Return the objects of all resources except those in `without`, by plural."""
        return [
            each.obj
            for kind in self._kinds()
            if kind.plural not in without
            for each in self.server.storage.collection(kind.resource)
        ]
