"""Names like ``example.com/controller`` (IsDomainPrefixedPath of apimachinery)."""

import re
from typing import Final

from controller_manager.devcluster.scheme.names import validate_subdomain
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)

_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PATH_TEXT: Final = f"Invalid path (regex used for validation is '{_PATH.pattern}')"


def validate_domain_prefixed_path(text: str, field: str) -> list[Cause]:
    """Check that a text is a domain, a slash, and a path."""
    if not text:
        return [required(field)]
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid(field, shown(text), detail)]
    causes = validate_subdomain(domain, field)
    if not _PATH.fullmatch(path):
        causes.append(invalid(field, shown(path), _PATH_TEXT))
    return causes
