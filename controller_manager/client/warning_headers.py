"""What an API server warns of: deprecated versions, dropped fields.

kube-controller-manager is silent about these; here each text is logged once.
"""

import re
from typing import Final

from controller_manager.observability.logs import Logger

_LIMIT: Final = 1000
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class WarningHeaders:
    """Logs the texts of Warning headers, each of them once."""

    def __init__(self, logger: Logger) -> None:
        """Take the logger."""
        self._logger = logger
        self._seen: set[str] = set()

    def seen(self, header: str) -> None:
        """Take a header, which may hold several warnings."""
        for text in _WARNING.findall(header):
            plain = re.sub(r"\\(.)", r"\1", text)
            if plain not in self._seen and len(self._seen) < _LIMIT:
                self._seen.add(plain)
                self._logger.warning("The API server warns", warning=plain)
