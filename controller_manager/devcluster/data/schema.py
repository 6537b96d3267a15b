"""The format of a data file, and checks of the format.

Format 1 has two tables:

- ``cluster``: facts by name, such as the keys, and the version of the state;
- ``objects``: one row for each object, as JSON.
"""

import sqlite3
from pathlib import Path
from typing import Final

from .data_error import DataError

FORMAT: Final = 1
"""The format of new files; all earlier formats can be read."""

APPLICATION: Final = 0x64657663
"""SQLite's application_id of the file: the letters "devc"."""

_MAGIC: Final = b"SQLite format 3\x00"

_STATEMENTS: Final = (
    "CREATE TABLE cluster (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    """CREATE TABLE objects (
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        object BLOB NOT NULL,
        UNIQUE (resource, namespace, name)
    )""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)


def check_is_database(path: Path) -> None:
    """Raise DataError if the file exists and is not an SQLite file."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror}"
        raise DataError(msg) from error
    if head and head != _MAGIC:
        msg = f"{path}: is not a data file of a development cluster; name another file"
        raise DataError(msg)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file; the caller has begun a transaction."""
    for statement in _STATEMENTS:
        connection.execute(statement)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Tell whether a file has no tables, as a new file."""
    (number,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return bool(number == 0)


def check_form(connection: sqlite3.Connection, path: Path) -> None:
    """Raise DataError if a file belongs to another program, is newer, or is damaged."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        msg = f"{path}: is the SQLite file of another program; name another file"
        raise DataError(msg)
    if version > FORMAT:
        msg = (
            f"{path}: has format {version}, and this version of controller-manager "
            f"reads formats up to {FORMAT}; install a newer one, or name another file"
        )
        raise DataError(msg)
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise damaged(path, verdict)


def damaged(path: Path, why: object) -> DataError:
    """Return the error for a damaged file."""
    reason = str(why).replace("\n", " ")
    msg = (
        f"{path}: is damaged, and was left as it is: {reason}; restore a snapshot to "
        "another file, or name another file"
    )
    return DataError(msg)
