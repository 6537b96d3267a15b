"""The console script, and ``python -m controller_manager``."""

import gc

# What is imported stays: looking for garbage in it took a sixth of the start.
gc.disable()
from controller_manager.cli import main  # noqa: E402 - see above

gc.freeze()
gc.enable()

if __name__ == "__main__":
    main()
