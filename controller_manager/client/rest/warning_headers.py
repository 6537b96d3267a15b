"""Warnings of an API server, for example about deprecated versions or dropped fields.

kube-controller-manager does not log them; here each text is logged once.
"""

import re
from typing import Final

from controller_manager.observability.logs import Logger

_LIMIT: Final = 1000
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class WarningHeaders:
    """Logs each text of Warning headers once."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._logged: set[str] = set()

    def log(self, header: str) -> None:
        """Log the warnings of a header that have not been logged yet."""
        for text in _WARNING.findall(header):
            plain = re.sub(r"\\(.)", r"\1", text)
            if plain not in self._logged and len(self._logged) < _LIMIT:
                self._logged.add(plain)
                self._logger.warning("The API server warns", warning=plain)
