"""The run of a command follows from its text, or is unknown."""

import pytest

from controller_manager.devcluster.kubelet.commands import FOREVER, Run, Write
from controller_manager.devcluster.kubelet.shell import run_of

BY_A_FUNCTION = """_term(){
    sleep 5
    exit 143
}
trap _term SIGTERM
while true; do
    sleep 1
done"""


def printing(line: str, code: int = 0) -> Run:
    return Run(0, code, lines=((0, line),))


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (["true"], Run()),
        (["/bin/true", "--help"], Run()),
        (["false"], Run(code=1)),
        (
            ["sh", "-c", "sleep 2; dd if=/dev/zero of=a bs=1 count=3"],
            Run(2, writes=(Write(2, "a"),)),
        ),
        (["dd", "if=/dev/zero", "of=a"], None),
        (["dd", "if=/dev/zero", "count=1"], None),
        (["fallocate", "-l", "1M", "a"], None),
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
        (["sh"], Run()),
        (["sh", "-e"], Run()),
        (["cat"], Run()),
        (["sleep", ".5"], Run(0.5)),
        (["/bin/busybox", "sleep", "5"], Run(5)),
        (["tail", "-f", "/dev/null"], Run(FOREVER)),
        (["/pause"], Run(FOREVER, termination=0)),
        (
            ["agnhost", "pause"],
            Run(FOREVER, lines=((0, "Paused"),), termination=0, termination_code=2),
        ),
        (["exit", "9" * 5000], None),
        (["sh", "-c"], None),
        (["sh", "-z", "-c", "true"], None),
        (["sh", "-ec", "false; sleep 1"], Run(0, 1)),
        (["bash", "-e", "-o", "pipefail", "-c", "false; sleep 1"], Run(0, 1)),
        (["sh", "-ec", "false || sleep 2; false && true; exit 4"], Run(2, 4)),
        (["sh", "-c", "set -eu; false; exit 4"], Run(0, 1)),
        (["sh", "-c", "sleep 1 && \\\n exit 3"], Run(1, 3)),
        (["sh", "-c", "exec sleep 4; exit 3"], Run(4)),
        (["sh", "-c", "/bin/sleep 2; sh -c 'exit 3'; sleep 1"], Run(3)),
        (["sh", "-c", "while true; do sleep 1; done"], Run(FOREVER)),
        (["sh", "-c", "until false\ndo\n sleep 1\n :\ndone"], Run(FOREVER)),
        (["sh", "-c", "sleep 1; while :; do sleep 2; exit 3; done"], Run(3, 3)),
        (["sh", "-c", "while false; do sleep 1; done; exit 2"], Run(0, 2)),
        (["sh", "-c", "while true; do while true; do :; done; done"], Run(FOREVER)),
        (["sh", "-c", "while true; do break; done"], None),
        (["sh", "-c", "while true; do sleep 1"], None),
        (["sh", "-c", "for i in 1 2; do sleep 1; done"], None),
        (
            ["sh", "-c", "trap exit TERM; while true; do sleep 2; done"],
            Run(FOREVER, termination=2),
        ),
        (["sh", "-c", "trap 'exit 0' INT; sleep infinity"], Run(FOREVER)),
        (["sh", "-c", "trap cleanup TERM; sleep 5"], None),
        (
            ["sh", "-c", BY_A_FUNCTION],
            Run(FOREVER, termination=6, termination_code=143),
        ),
        (["sh", "-c", "trap 'sleep 2' TERM; sleep 5"], Run(5)),
        (["sh", "-c", "trap 'touch /a; exit' TERM; sleep 5"], None),
        (["sh", "-c", "trap 'exit 4' EXIT; sleep 5"], None),
        (["sh", "-c", "f() { exit 3; }\nf"], None),
        (["sh", "-c", "true; " * 5000], None),
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
        (["sh", "-c", "sleep 1;; sleep 2"], None),
        (["sh", "-c", "true # ok; false"], None),
        (["sh", "-c", "while exit 3; do true; done"], None),
        (["sh", "-c", "true\n\nexit 3"], Run(code=3)),
        (["sh", "-c", "true &&\nexit 3"], Run(code=3)),
        (["sh", "-c", "echo 'a\nb'"], Run(lines=((0.0, "a"), (0.0, "b")))),
        (["sh", "-c", "while true;do " * 400 + ":;" + "done;" * 400], None),
        (["sleep", "999999999999d"], Run(FOREVER)),
        (["sh", "-c", "sleep infinity; exit 1"], Run(FOREVER)),
        (["sh", "-c", "sleep 5 & wait"], None),
        (["sh", "-c", "echo a | grep b"], None),
        (["sh", "-c", "exit $JOB_COMPLETION_INDEX"], None),
        (["sh", "-c", "if true; then exit 1; fi"], Run(code=1)),
        (["sh", "-c", "echo 'no end"], None),
        (["sh", "-c", ""], Run()),
    ],
)
def test_a_command_is_known_or_not(command: list[str], run: Run | None) -> None:
    assert run_of(command) == run
