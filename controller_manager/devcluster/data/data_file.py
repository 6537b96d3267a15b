"""The SQLite file in which a cluster keeps its state."""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from controller_manager.api.scalars import parse_rfc3339
from controller_manager.devcluster.keys import ClusterKeys
from controller_manager.devcluster.server.storage.state import StorageState
from controller_manager.devcluster.server.storage.storage import Key, Stored
from controller_manager.serving.certificates import Pair

from .collector import paused_collector
from .data_error import DataError, NotSavedError
from .decoding import share_fields
from .schema import check_form, check_is_database, create_tables, damaged, is_empty

Place = tuple[str, str, str]
"""Resource, namespace and name of an object."""

RESERVE: Final = 1_000_000
"""The number of versions that a cluster may use before it writes a new ceiling."""

_PUT: Final = """
INSERT INTO objects VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET version = excluded.version, object = excluded.object
"""
_DELETE: Final = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_FACT: Final = "INSERT OR REPLACE INTO cluster VALUES (?, ?)"


class Batch(Struct, frozen=True):
    """Changes that are written in one transaction; `None` stands for a removal.

    `version` is that of the state with them. No cluster that finds the file later gives
    out a version up to `ceiling` again, unless the state `is_final`.
    """

    version: int
    ceiling: int
    objects: Mapping[Place, Stored | None]
    numbers: Mapping[str, int]
    is_final: bool = False
    time: datetime | None = None
    """The time of the cluster's clock, which may be fast; `None` for no change."""


class DataFile:
    """An open data file, which no other process can open.

    One thread at a time writes it. Written changes survive each end of this process,
    also a crash. A failure of the machine may cost the last seconds, but leaves the
    state of one moment (journal_mode=WAL, synchronous=NORMAL).
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        facts = self._facts()
        try:
            authority = Pair(facts["authority"], facts["authority-key"])
            self.keys: Final = ClusterKeys.from_pem(authority, facts["account-key"])
            self.admin_token: Final = facts["admin-token"].decode()
            self.port: Final = int(facts.get("port", 0))
            self.time: Final = _time(facts.get("time"))
            self._version = int(facts["version"])
            if facts["is-final"] != b"1":
                self._version = int(facts["ceiling"])
            self._numbers = msgspec.json.decode(facts["numbers"], type=dict[str, int])
        except (KeyError, ValueError) as error:  # msgspec's errors are ValueErrors
            raise damaged(path, f"the table cluster: {error}") from error

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a data file, or create it with new keys; raises DataError.

        It does not change a file that it cannot use.
        """
        if not path.parent.is_dir():
            msg = f"{path}: there is no directory {path.parent}"
            raise DataError(msg)
        _make_private(path)
        check_is_database(path)
        with _explained(path):
            connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                _lock(connection)
                if is_empty(connection):
                    with _transaction(connection):
                        create_tables(connection)
                        _write_keys(connection, ClusterKeys.generate())
                check_form(connection, path)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise

    def state(self) -> StorageState:
        """Return all objects; raises DataError.

        After a crash, the version is higher than all versions that clients may have
        seen.
        """
        objects: dict[str, dict[Key, Stored]] = {}
        query = "SELECT resource, namespace, name, version, object FROM objects"
        with _explained(self.path), paused_collector():
            try:
                for row in self._connection.execute(f"{query} ORDER BY rowid"):
                    resource, namespace, name, version, encoded = row
                    obj = msgspec.json.decode(encoded, type=dict[str, Any])
                    share_fields(obj)
                    stored = Stored(obj, version)
                    objects.setdefault(resource, {})[namespace, name] = stored
            except ValueError as error:
                raise damaged(self.path, f"the table objects: {error}") from error
        return StorageState(self._version, objects, self._numbers)

    def write(self, batch: Batch) -> None:
        """Write a batch whole, or not at all; raises NotSavedError."""
        with self._transaction() as connection:
            _write(connection, batch)

    def write_port(self, port: int) -> None:
        """Store the port of the API server; raises NotSavedError."""
        with self._transaction() as connection:
            connection.execute(_FACT, ("port", b"%d" % port))

    def replace(self, state: StorageState) -> None:
        """Replace all objects by those of another state; the keys stay.

        Raises NotSavedError, and then nothing has changed.
        """
        places: dict[Place, Stored | None] = {
            (resource, *key): stored
            for resource, objects in state.objects.items()
            for key, stored in objects.items()
        }
        version = state.version
        batch = Batch(version, version, places, state.numbers, is_final=True)
        with self._transaction() as connection:
            connection.execute("DELETE FROM objects")
            _write(connection, batch)

    def close(self) -> None:
        """Close the file, so that no other files beside it have changes."""
        self._connection.close()

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _facts(self) -> dict[str, bytes]:
        with _explained(self.path):
            return dict(self._connection.execute("SELECT name, value FROM cluster"))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all changes made while entered, or none; raises NotSavedError."""
        connection = self._connection
        try:
            with _transaction(connection):
                yield connection
        except sqlite3.Error as error:
            msg = f"{self.path}: cannot be written: {error}"
            raise NotSavedError(msg) from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make_private(path: Path) -> None:
    """Create the file if there is none: it has keys, so only its owner may read it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        msg = f"{path}: cannot be opened: {error.strerror}"
        raise DataError(msg) from error


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into one line about the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
        ):
            msg = (
                f"{path}: is in use by another development cluster; stop that one, "
                "or name another file"
            )
            raise DataError(msg) from error
        if code is not None and code & 0xFF in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        ):
            raise damaged(path, error) from error
        msg = f"{path}: cannot be used: {error}"
        raise DataError(msg) from error


def _lock(connection: sqlite3.Connection) -> None:
    """Lock the file for this process until the connection is closed."""
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("COMMIT")


def _write_keys(connection: sqlite3.Connection, keys: ClusterKeys) -> None:
    """Write the facts of a new cluster."""
    facts: dict[str, bytes] = {
        "authority": keys.authority.certificate,
        "authority-key": keys.authority.key,
        "account-key": keys.account_key_pem(),
        "admin-token": secrets.token_urlsafe(32).encode(),
        "version": b"1",
        "ceiling": b"1",
        "is-final": b"1",
        "numbers": b"{}",
    }
    connection.executemany(_FACT, facts.items())


def _write(connection: sqlite3.Connection, batch: Batch) -> None:
    _write_objects(connection, batch.objects)
    facts = {
        "version": b"%d" % batch.version,
        "ceiling": b"%d" % batch.ceiling,
        "is-final": b"%d" % batch.is_final,
        "numbers": msgspec.json.encode(batch.numbers),
    }
    if batch.time is not None:
        facts["time"] = batch.time.isoformat().encode()
    connection.executemany(_FACT, facts.items())


def _time(text: bytes | None) -> datetime | None:
    return None if text is None else parse_rfc3339(text.decode())


def _write_objects(
    connection: sqlite3.Connection, objects: Mapping[Place, Stored | None]
) -> None:
    removed = [place for place, stored in objects.items() if stored is None]
    connection.executemany(_DELETE, removed)
    connection.executemany(_PUT, _rows(objects))


def _rows(objects: Mapping[Place, Stored | None]) -> Iterable[tuple[Any, ...]]:
    for place, stored in objects.items():
        if stored is not None:
            # Not `stored.encoded`, which would keep the bytes in memory.
            yield (*place, stored.version, msgspec.json.encode(stored.obj))
