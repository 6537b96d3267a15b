"""Names that the API server accepts (apimachinery pkg/util/validation)."""

import re
from typing import Final

_MAX_SUBDOMAIN: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_dns_subdomain(name: str) -> bool:
    """Tell whether `name` is a DNS subdomain (IsDNS1123Subdomain).

    Most kinds require such a name. Names of roles may have more characters, and names
    of objects of an aggregated API any length.
    """
    return len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None
