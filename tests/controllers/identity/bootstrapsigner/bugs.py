"""Deliberate bugs of the signer of cluster-info."""

from collections.abc import Mapping
from typing import Final

from controller_manager.controllers.identity.bootstrapsigner import controller
from tests.simulation.planted import Bug

_signed = controller.signed


def _never_again(
    data: Mapping[str, str], tokens: Mapping[str, str]
) -> dict[str, str] | None:
    """Take every signature that is there for a right one."""
    wanted = _signed(data, tokens)
    return None if wanted is None or wanted.keys() == data.keys() else wanted


def _never_removed(
    data: Mapping[str, str], tokens: Mapping[str, str]
) -> dict[str, str] | None:
    """Leave the signatures of tokens that are gone."""
    wanted = _signed(data, tokens)
    if wanted is None or wanted.keys() < data.keys():
        return None
    return {**data, **wanted}


BUGS: Final[Mapping[str, Bug]] = {
    "sign cluster-info once": Bug(
        0, controller, "signed", _never_again, "signature-of-another-text"
    ),
    "keep signatures of expired tokens": Bug(
        0, controller, "signed", _never_removed, "signature-of-a-token-that-ends"
    ),
}
