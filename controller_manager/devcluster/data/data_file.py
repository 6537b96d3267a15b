"""The file in which a cluster keeps its state: a snapshot that also has the keys."""

import fcntl
import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Final, Self

import msgspec

from controller_manager.devcluster.certificates import ClusterKeys
from controller_manager.devcluster.storage import StorageState
from controller_manager.serving.certificates import Pair

from .snapshot import (
    ClusterFacts,
    DataError,
    Header,
    decode_header,
    decode_snapshot,
    encode_snapshot,
    read_text,
    replaced,
)

RESERVE: Final = 1_000_000
"""The versions that are left out after a crash: clients may have seen some of them."""

_SQLITE: Final = b"SQLite format 3\x00"
"""The beginning of the data files of versions up to 0.3."""


class DataFile:
    """An open data file, which no other cluster can open.

    Each write replaces the whole file in one step. So the file has the state of one
    moment, also after a crash of this process or of the machine.
    """

    def __init__(
        self, path: Path, lock: int, header: Header, facts: ClusterFacts
    ) -> None:
        """Take the descriptor of the file, which has the lock, and its first line."""
        self.path = path
        self.port = facts.port
        self.time: Final = facts.time
        self.admin_token: Final = facts.admin_token
        self._lock = lock
        self._facts = facts
        self._version = int(header.resource_version)
        if not facts.is_final:
            self._version += RESERVE
        authority = Pair(facts.authority.encode(), facts.authority_key.encode())
        self.keys: Final = ClusterKeys.from_pem(authority, facts.account_key.encode())

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a data file, or create it with new keys; raises DataError.

        It does not change a file that it cannot use.
        """
        if not path.parent.is_dir():
            msg = f"{path}: there is no directory {path.parent}"
            raise DataError(msg)
        lock = _locked(path)
        try:
            with os.fdopen(os.dup(lock), "rb") as file:
                line = file.readline()
            if line:
                header = _usable(path, line)
                return cls(path, lock, header, _facts(path, header))
            empty = Header("controller-manager devcluster snapshot", 1, "1", 0, {})
            created = cls(path, lock, empty, _new_facts())
            created.write(StorageState(1, {}, {}), is_final=True)
        except ValueError as error:
            os.close(lock)
            raise _damaged(path, f"its keys: {error}") from error
        except BaseException:
            os.close(lock)
            raise
        return created

    def state(self) -> StorageState:
        """Return all objects; raises DataError.

        After a crash, the version is higher than all versions that clients may have
        seen.
        """
        text = read_text(self.path)
        try:
            state = decode_snapshot(text)
        except DataError as error:
            raise _damaged(self.path, error) from error
        return msgspec.structs.replace(state, version=self._version)

    def write(
        self,
        state: StorageState,
        time: datetime | None = None,
        *,
        is_final: bool = False,
    ) -> None:
        """Replace all objects; a cluster that ends says that the state `is_final`.

        Raises DataError, and then nothing has changed.
        """
        facts = msgspec.structs.replace(
            self._facts,
            port=self.port,
            time=time or self._facts.time,
            is_final=is_final,
        )
        lock = -1
        try:
            # The draft of a killed cluster is replaced by that of the next one.
            with replaced(self.path, "new") as draft:
                # The lock of a file ends with its last descriptor.
                lock = os.dup(draft.fileno())
                fcntl.flock(lock, fcntl.LOCK_EX)
                draft.writelines(encode_snapshot(state, facts))
        except BaseException:
            if lock >= 0:
                os.close(lock)
            raise
        os.close(self._lock)
        self._lock, self._facts = lock, facts
        self._version = state.version if is_final else state.version + RESERVE

    def close(self) -> None:
        """Let other clusters open the file."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


def _locked(path: Path) -> int:
    """Open a file, or create it for its owner only, and lock it; raises DataError."""
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            msg = f"{path}: cannot be opened: {error.strerror}"
            raise DataError(msg) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            msg = (
                f"{path}: is in use by another development cluster; stop that one, "
                "or name another file"
            )
            raise DataError(msg) from error
        if path.exists() and os.path.samestat(path.stat(), os.fstat(lock)):
            return lock
        # The other cluster has replaced the file since it was opened.
        os.close(lock)


def _usable(path: Path, line: bytes) -> Header:
    """Return the first line of a data file; raises DataError for any other file."""
    if line.startswith(_SQLITE):
        msg = (
            f"{path}: is a data file of version 0.3 or earlier, or a file of another "
            "program (SQLite), and was left as it is; with controller-manager 0.3, run "
            f"devcluster snapshot --data {path} FILE, and with this version devcluster "
            "restore --data NEW-DATA FILE"
        )
        raise DataError(msg)
    try:
        return decode_header(line)
    except DataError as error:
        if error.__cause__ is None:
            msg = f"{path}: {error}, or name another file"
        else:
            msg = (
                f"{path}: is not a data file of a development cluster; name another "
                "file"
            )
        raise DataError(msg) from error


def _facts(path: Path, header: Header) -> ClusterFacts:
    if isinstance(header.cluster, ClusterFacts):
        return header.cluster
    msg = (
        f"{path}: is a snapshot without keys, not a data file; restore it to one: "
        f"controller-manager devcluster restore --data NEW-DATA {path}"
    )
    raise DataError(msg)


def _new_facts() -> ClusterFacts:
    """Return the facts of a new cluster."""
    keys = ClusterKeys.generate()
    return ClusterFacts(
        authority=keys.authority.certificate.decode(),
        authority_key=keys.authority.key.decode(),
        account_key=keys.account_key_pem().decode(),
        admin_token=secrets.token_urlsafe(32),
        is_final=True,
    )


def _damaged(path: Path, why: object) -> DataError:
    """Return the error for a damaged file."""
    reason = str(why).replace("\n", " ")
    msg = (
        f"{path}: is damaged, and was left as it is: {reason}; restore a snapshot to "
        "another file, or name another file"
    )
    return DataError(msg)
