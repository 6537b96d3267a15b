"""How many files this process may have open: each watch takes one."""

import resource
from typing import Final

from controller_manager.observability.logs import Logger

_FEW: Final = 1024
"""Below this number a usual cluster with custom resources may need more."""


def raise_open_files_limit(logger: Logger) -> int:
    """Raise the soft limit of open files to the hard one.

    Returns the limit, 0 if there is none.

    Go's runtime does the same at its start. A soft limit of 1,024 is usual and has
    historic reasons only (``select``, which nothing here uses).
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
            "This process may have few files open, and each resource that is watched "
            "takes one; raise the hard limit (ulimit -n, LimitNOFILE=)",
            limit=soft,
        )
    return soft
