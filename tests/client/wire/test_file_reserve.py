"""A process that has no file left can still connect for its lease."""

import sys

from tests.distributions import completed

SCRIPT = """
import os, resource, socket
from controller_manager.client.wire.file_reserve import FileReserve

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
reserve = FileReserve(4)
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError as error:
    assert error.strerror == "Too many open files"
sockets = [reserve.open(socket.socket) for _ in range(4)]
assert len(reserve) == 0
try:
    reserve.open(socket.socket)
except OSError as error:
    print(error.strerror)
sockets.pop().close()
reserve.refill()
assert len(reserve) == 1
sockets.append(reserve.open(socket.socket))
for each in sockets:
    each.close()
reserve.refill()
print(len(reserve))
reserve.close()
print(len(reserve))
"""


def test_a_reserve_opens_files_when_no_descriptor_is_free() -> None:
    done = completed(sys.executable, "-W", "error", "-c", SCRIPT, timeout=60)
    assert (done.stdout, done.stderr) == ("Too many open files\n4\n0\n", "")
