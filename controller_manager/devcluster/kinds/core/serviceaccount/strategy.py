"""ServiceAccount: the identity of programs in pods."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.server.storage import Storage

from .token_request import token_request


class ServiceAccountStrategy(Strategy):
    """Shows the number of secrets."""

    returns_deleted: ClassVar = True
    columns: ClassVar = (NAME, Column("Secrets"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), len(obj.get("secrets", [])), age(obj, now)]


KIND: Final = kind_of("v1", "serviceaccounts", ServiceAccountStrategy())
REST_STORAGE: Final = RESTStorage(KIND.resource, connect={"token": token_request})


def uid_of_account(storage: Storage, namespace: str, name: str) -> str | None:
    """Return the uid of a service account, `None` if there is none."""
    stored = storage.collection(KIND.resource).get((namespace, name))
    return str(stored.obj["metadata"]["uid"]) if stored is not None else None
