"""``python -m controller_manager`` is the console script."""

from controller_manager.cli import main

main()
