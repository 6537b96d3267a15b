"""The limit of open files of this process: each watch needs one file."""

import resource
from typing import Final

from controller_manager.observability.logs import Logger

_FEW: Final = 1024
"""Below this limit a warning is logged: custom resources may need more files."""


def raise_open_files_limit(logger: Logger) -> int:
    """Raise the soft limit of open files to the hard limit.

    Returns the limit, 0 if there is none.

    Go's runtime does the same at its start. A soft limit of 1,024 is usual for
    historic reasons only (``select``, which this program does not use).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning(
                "The limit of open files cannot be raised",
                limit=soft,
                wanted=hard,
                err=str(error),
            )
        else:
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return 0
    if soft < _FEW:
        logger.warning(
            "This process may open few files, and each watched resource needs one; "
            "raise the hard limit (ulimit -n, LimitNOFILE=)",
            limit=soft,
        )
    return soft
