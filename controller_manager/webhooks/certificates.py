"""The serving certificate of webhooks, in a secret that all replicas share.

Each certificate is its own authority, and its key signs nothing else. So there is no
key by which others could be made, and to renew a certificate is to renew an authority:

1. A certificate that ends in two months gets a successor. Its authority is trusted
   from now on, and the old one is still served.
2. An hour later, once a replica sees that all configurations have the new authority,
   the successor is served. The old one stays trusted until it ends: a replica that was
   paused may still serve it.

Each step is one write of the secret as it was read, so of several replicas one makes
it. A secret that is gone comes back with the certificate that this process serves.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace

from controller_manager.api.core.secrets import SECRETS, Secret, decoded, encoded
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import AlreadyExists, Conflict, NotFound
from controller_manager.clock import Clock
from controller_manager.observability.logs import Logger
from controller_manager.serving.certificates import (
    RENEW_BEFORE,
    VALIDITY,
    Pair,
    self_signed,
)

_OVERLAP: Final = timedelta(hours=1)
_TYPE: Final = "kubernetes.io/tls"
_AUTHORITIES: Final = "ca.crt"
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class _Kept:
    """The content of the secret."""

    served: Pair | None
    successor: Pair | None
    authorities: tuple[bytes, ...]


@dataclass(slots=True)
class WebhookCertificates:
    """Keeps the certificate for a host, and makes or renews it."""

    client: Client
    namespace: str
    name: str
    host: str
    clock: Clock
    logger: Logger
    served: Pair | None = field(init=False, default=None)
    """The certificate to serve; `None` before the first `refresh`."""

    authorities: bytes = field(init=False, default=b"")
    """The authorities that API servers must trust, as PEM."""

    async def refresh(self, trusted: bytes) -> None:
        """Read the secret, and write it if a step is due.

        All configurations have the authorities `trusted`. Raises an APIError if the
        secret may not be read or written.
        """
        for _ in range(_ATTEMPTS):
            secret = await self._read()
            kept = self._kept(secret)
            wanted = self._next(kept, trusted)
            is_kept = secret is not None and wanted == kept
            if is_kept or await self._write(secret, wanted):
                self.served = wanted.served
                self.authorities = b"".join(wanted.authorities)
                return

    async def _read(self) -> Secret | None:
        try:
            return await self.client.get(SECRETS, self.namespace, self.name)
        except NotFound:
            return None

    async def _write(self, secret: Secret | None, wanted: _Kept) -> bool:
        """Write the secret as it was read; tell whether nobody else has changed it."""
        assert wanted.served is not None  # noqa: S101 - `_next` sees to it
        data = {
            "tls.crt": wanted.served.certificate,
            "tls.key": wanted.served.key,
            _AUTHORITIES: b"".join(wanted.authorities),
        }
        if wanted.successor is not None:
            data["next.crt"] = wanted.successor.certificate
            data["next.key"] = wanted.successor.key
        texts = {key: encoded(each.decode()) for key, each in data.items()}
        metadata = ObjectMeta(namespace=self.namespace, name=self.name)
        try:
            if secret is None:
                new = Secret(metadata=metadata, type=_TYPE, data=texts)
                await self.client.create(SECRETS, new)
            else:
                await self.client.update(SECRETS, replace(secret, data=texts))
        except (AlreadyExists, Conflict):
            return False
        except NotFound:
            if secret is None:  # there is no such namespace
                raise
            return False
        has_successor = wanted.successor is not None
        self.logger.info("Wrote the secret", name=self.name, successor=has_successor)
        return True

    def _kept(self, secret: Secret | None) -> _Kept:
        """Return what counts of a secret; without it, what this process has."""
        now = self.clock.now()
        if secret is None:
            authorities = tuple(_certificates(self.authorities))
            return _Kept(self._usable(self.served, now), None, authorities)
        served, successor = (
            self._usable(_pair(secret, name), now) for name in ("tls", "next")
        )
        text = decoded(secret, _AUTHORITIES).encode(errors="replace")
        return _Kept(served, successor, tuple(_certificates(text)))

    def _next(self, kept: _Kept, trusted: bytes) -> _Kept:
        """Return what the secret must have now, which is equal if no step is due."""
        now = self.clock.now()
        served, successor = kept.served, kept.successor
        if served is None:
            own = successor or self._usable(self.served, now)
            served, successor = own or self._new(now), None
        if now > _end(served) - RENEW_BEFORE:
            if successor is None:
                successor = self._new(now)
            elif (
                now >= _end(successor) - VALIDITY + _OVERLAP
                and successor.certificate in trusted
            ):
                served, successor = successor, None
        needed = [each.certificate for each in (served, successor) if each is not None]
        others = (each for each in kept.authorities if _end_of(each) > now)
        return _Kept(served, successor, tuple(dict.fromkeys((*needed, *others))))

    def _new(self, now: datetime) -> Pair:
        return self_signed(self.name, [self.host], now=now.replace(microsecond=0))

    def _usable(self, pair: Pair | None, now: datetime) -> Pair | None:
        """Return a pair with its end if it is valid now and for the host."""
        if pair is None:
            return None
        try:
            found = x509.load_pem_x509_certificate(pair.certificate)
            key = serialization.load_pem_private_key(pair.key, None)
            names = found.extensions.get_extension_for_class(
                x509.SubjectAlternativeName
            ).value
        except (ValueError, TypeError, x509.ExtensionNotFound):
            return None
        is_for = self.host in {str(each.value) for each in names}
        is_pair = key.public_key() == found.public_key()
        ends_at = found.not_valid_after_utc
        is_valid = found.not_valid_before_utc <= now < ends_at
        whole = Pair(pair.certificate, pair.key, ends_at)
        return whole if is_for and is_pair and is_valid else None


def _pair(secret: Secret, name: str) -> Pair | None:
    certificate, key = (decoded(secret, f"{name}.{part}") for part in ("crt", "key"))
    if not certificate or not key:
        return None
    return Pair(certificate.encode(errors="replace"), key.encode(errors="replace"))


def _certificates(pem: bytes) -> Iterator[bytes]:
    """Yield the certificates in a text; none if it cannot be read."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return
    yield from (each.public_bytes(serialization.Encoding.PEM) for each in found)


def _end(pair: Pair) -> datetime:
    return pair.ends_at or _end_of(pair.certificate)


def _end_of(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
