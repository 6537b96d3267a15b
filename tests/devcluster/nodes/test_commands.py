"""The run of a command follows from its text, or is unknown."""

import pytest

from controller_manager.devcluster.nodes.annotations import FOREVER
from controller_manager.devcluster.nodes.commands import Run, run_of


def printing(line: str, code: int = 0) -> Run:
    return Run(0, code, lines=((0, line),))


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (["true"], Run()),
        (["/bin/true", "--help"], Run()),
        (["false"], Run(code=1)),
        (["echo", "hello", "$NAME"], printing("hello $NAME")),
        (["echo", "-n", "a\nb"], Run(lines=((0, "a"), (0, "b")))),
        (["sh", "-c", "sleep 2; echo b"], Run(2, lines=((2, "b"),))),
        (["sleep", "5"], Run(5)),
        (["sleep", "1.5", "1m"], Run(61.5)),
        (["sleep", "infinity"], Run(FOREVER)),
        (["sleep", "$SECONDS"], None),
        (["sleep"], None),
        (["nginx", "-g", "daemon off;"], None),
        (["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"], None),
        (["sh"], None),
        (["sh", "script.sh"], None),
        (["sh", "-c", "exit 3"], Run(0, 3)),
        (["bash", "-c", "exit 256"], Run(0, 0)),
        (["/bin/sh", "-c", "date; echo Hello to all"], printing("Hello to all")),
        (["sh", "-c", "sleep 2; exit 3; sleep 4"], Run(2, 3)),
        (["sh", "-c", "sleep 2 && false && sleep 4"], Run(2, 1)),
        (["sh", "-c", "false || sleep 3"], Run(3)),
        (["sh", "-c", "true || sleep 3; false; exit"], Run(0, 1)),
        (["sh", "-c", "echo 'a; b && c'; exit 7"], printing("a; b && c", 7)),
        (["sh", "-c", "\nsleep 1\n\nsleep 2\n"], Run(3)),
        (["sh", "-c", "false &&\n sleep 2\nexit 4"], Run(0, 4)),
        (["sh", "-c", "sleep 1;; sleep 2"], Run(3)),
        (["sh", "-c", "sleep infinity; exit 1"], Run(FOREVER)),
        (["sh", "-c", "sleep 5 & wait"], None),
        (["sh", "-c", "echo a | grep b"], None),
        (["sh", "-c", "exit $JOB_COMPLETION_INDEX"], None),
        (["sh", "-c", "if true; then exit 1; fi"], None),
        (["sh", "-c", "echo 'no end"], None),
        (["sh", "-c", ""], Run()),
    ],
)
def test_a_command_is_known_or_not(command: list[str], run: Run | None) -> None:
    """An unknown part makes all of it unknown."""
    assert run_of(command) == run
