"""A package whose controller cannot be loaded ends the program with one line."""

from pathlib import Path

import pytest

from tests.distributions import install, run_program

DESCRIPTOR = "from controller_manager.runtime.descriptor import Descriptor\n"
TAKEN_FLAG = f"""
{DESCRIPTOR}
from controller_manager.options.controller_options import ControllerOptions, option

class Options(ControllerOptions):
    kubeconfig: str = option("kubeconfig", "string", "", "A flag that is there.")

CONTROLLER = Descriptor("mine", ".x:X", options=Options)
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("config",), ("devcluster",)])
def test_a_package_that_cannot_be_imported_ends_every_command(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """There are no flags to parse without it."""
    install(tmp_path, "broken", "import no_such_thing")
    result = run_program(*arguments, directories=(tmp_path,))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: the controller mine of broken cannot be imported from "
        "broken:CONTROLLER: ModuleNotFoundError: No module named 'no_such_thing'; "
        "repair or uninstall the package\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "",
            (
                "the controller mine of other cannot be imported from "
                "other:CONTROLLER: AttributeError: module 'other' has no attribute "
                "'CONTROLLER'; repair or uninstall the package"
            ),
        ),
        (
            "CONTROLLER = 'mine-controller'",
            (
                "other:CONTROLLER of other is not a Descriptor; name one in its entry "
                "point of the group controller_manager.controllers"
            ),
        ),
        (
            f"{DESCRIPTOR}CONTROLLER = Descriptor('mine', '.x:X', aliases=('ttl',))",
            (
                "two controllers are called ttl: ttl-controller of "
                "controller_manager.controllers.nodes.ttl, and mine of other; "
                "remove one of the packages"
            ),
        ),
        (
            f"{DESCRIPTOR}CONTROLLER = Descriptor('mine', '.x:X', options=dict)",
            (
                "the options of mine of other are not a subclass of "
                "ControllerOptions; make them one"
            ),
        ),
        (
            TAKEN_FLAG,
            "--kubeconfig of Mine is already a flag of Misc; choose another name",
        ),
    ],
    ids=[
        "no such name",
        "no descriptor",
        "a name that is taken",
        "no options",
        "a taken flag",
    ],
)
def test_each_fault_is_one_line(tmp_path: Path, source: str, problem: str) -> None:
    install(tmp_path, "other", source)
    result = run_program("--help", directories=(tmp_path,))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: {problem}\n"
