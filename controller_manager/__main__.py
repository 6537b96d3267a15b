"""The console scripts, and ``python -m controller_manager``."""

from controller_manager.cli import kubectl_plugin, main

__all__ = ["kubectl_plugin", "main"]

if __name__ == "__main__":
    main()
