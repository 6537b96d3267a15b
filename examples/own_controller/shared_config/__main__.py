"""The controller as a process of its own: ``python -m shared_config``."""

from controller_manager.sdk import run
from shared_config import CONTROLLER

if __name__ == "__main__":
    run(CONTROLLER)
