"""The console script, and ``python -m controller_manager``."""

import gc
import os

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

# Imported modules stay in memory: collecting garbage while they are imported took a
# sixth of the start-up time.
gc.disable()
# aiohttp reads the system's certificate authorities twice when it is imported, for
# TLS contexts that this program does not use: another sixth of the start-up time.
# Code that needs the authorities reads them later.
_named = {name: os.environ.pop(name, None) for name in _AUTHORITIES}
os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
from controller_manager.cli import main  # noqa: E402 - see above

for _name, _path in _named.items():
    del os.environ[_name]
    if _path is not None:
        os.environ[_name] = _path
gc.freeze()
gc.enable()

if __name__ == "__main__":
    main()
