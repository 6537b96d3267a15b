"""The authorities of client certificates, and the headers of front proxies.

Upstream: apiserver pkg/server/dynamiccertificates (dynamic_cafile_content.go,
configmap_cafile_content.go) and pkg/authentication/request/headerrequest
(requestheader_controller.go).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from controller_manager.observability.logs import Logger
from controller_manager.options.config import AuthenticationConfig, RequestHeaderConfig

from .certificates import ServingError, check_authorities

_NO_HEADERS: Final = RequestHeaderConfig("", (), (), (), (), ())
"""Without a header for the name of the user, no front proxy can name one."""


class _Bundle:
    """The last good content of one bundle of authorities."""

    def __init__(self, where: str, logger: Logger) -> None:
        """Start empty; `where` says in messages where the content comes from."""
        self._where = where
        self._logger = logger
        self._taken: bytes | None = None
        self.pem = b""
        self.certificates: frozenset[bytes] = frozenset()
        """The certificates as DER."""

    def take(self, content: bytes) -> None:
        """Use `content` from now on; raises ServingError if it cannot be used."""
        if content == self._taken:
            return
        pem = check_authorities(content, self._where)
        found = x509.load_pem_x509_certificates(pem)
        now = datetime.now(UTC)
        for each in found:
            end = each.not_valid_after_utc
            if end < now:
                self._logger.warning(
                    "A client authority has expired, its certificates are refused",
                    err=f"{self._where}: it ended on {end:%Y-%m-%d}",
                )
        self.pem, self._taken = pem, content
        self.certificates = frozenset(each.public_bytes(Encoding.DER) for each in found)

    def current(self) -> Self:
        """Return this, with its newest good content."""
        return self

    def is_in(self, chain: Sequence[bytes]) -> bool:
        """Tell whether a verified chain (DER) has one of the authorities."""
        return not self.current().certificates.isdisjoint(chain)


class _FileBundle(_Bundle):
    """Authorities in a file, which is read again each time."""

    def __init__(self, path: Path, flag: str, logger: Logger) -> None:
        """Read the file; raises ServingError if it cannot be used."""
        super().__init__(f"{flag} {path}", logger)
        self._path = path
        self._problem = ""
        self._read()

    def _read(self) -> None:
        try:
            content = self._path.read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            msg = f"{self._where}: {why}"
            raise ServingError(msg) from error
        self.take(content)

    def current(self) -> Self:
        """Take the file's content if it is usable; log each new problem once."""
        try:
            self._read()
        except ServingError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._logger.warning(
                    "Cannot use the new client authorities, keeping the last ones",
                    err=self._problem,
                )
        else:
            self._problem = ""
        return self


@dataclass(slots=True)
class Authorities:
    """The authorities of client certificates, from files or from the cluster.

    Content that cannot be used never replaces content that can: the last good one
    stays in use, as upstream.
    """

    config: AuthenticationConfig
    logger: Logger
    request_header: RequestHeaderConfig = field(init=False)
    """The headers of front proxies; without their settings, no header is read."""
    users: _Bundle = field(init=False)
    """The authorities of users' certificates."""
    proxies: _Bundle = field(init=False)
    """The authorities of front proxies' certificates."""

    def __post_init__(self) -> None:
        """Read the files; raises ServingError if one cannot be used."""
        headers = self.config.request_header
        self.users = self._bundle(self.config.client_ca_file, "client-ca-file")
        self.proxies = self._bundle(
            headers.client_ca_file, "requestheader-client-ca-file"
        )
        self.request_header = headers if headers.client_ca_file else _NO_HEADERS

    def _bundle(self, path: str, name: str) -> _Bundle:
        if path:
            return _FileBundle(Path(path), f"--{name}", self.logger)
        return _Bundle(f"config map: {name}", self.logger)

    def bundle(self) -> bytes:
        """Return all authorities as PEM, for the TLS handshake."""
        both = (self.users.current().pem, self.proxies.current().pem)
        return b"\n".join(filter(None, both))

    def update_from_config_map(self, data: Mapping[str, str]) -> None:
        """Take the settings of the cluster's config map that no flag sets.

        Each of its bundles, and its headers as a whole, are taken by themselves. A
        bundle that is absent leaves the last one in use. Raises ServingError, which
        names all that cannot be used, after it has taken the rest.
        """
        parts: list[Callable[[], None]] = []
        if not self.config.client_ca_file:
            parts.append(lambda: _take(self.users, data, "client-ca-file"))
        if not self.config.request_header.client_ca_file:
            parts.append(
                lambda: _take(self.proxies, data, "requestheader-client-ca-file")
            )
            parts.append(lambda: self._take_headers(data))
        problems = []
        for part in parts:
            try:
                part()
            except ServingError as error:
                problems.append(str(error))
        if problems:
            raise ServingError("; ".join(problems))

    def _take_headers(self, data: Mapping[str, str]) -> None:
        self.request_header = RequestHeaderConfig(
            allowed_names=_listed(data, "requestheader-allowed-names"),
            username_headers=_listed(data, "requestheader-username-headers"),
            uid_headers=_listed(data, "requestheader-uid-headers"),
            group_headers=_listed(data, "requestheader-group-headers"),
            extra_prefixes=_listed(data, "requestheader-extra-headers-prefix"),
        )


def _take(bundle: _Bundle, data: Mapping[str, str], key: str) -> None:
    if data.get(key):
        bundle.take(data[key].encode())


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the list under a key; an absent or empty one is a list without entries.

    Raises ServingError for anything but a list of strings: names that cannot be read
    must not stand for "any name".
    """
    try:
        found = json.loads(data.get(key) or "null")
    except ValueError:
        found = False
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        msg = f"config map: {key}: is not a list of strings in JSON"
        raise ServingError(msg)
    return tuple(found)
