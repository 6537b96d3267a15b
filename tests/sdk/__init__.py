"""Tests of the front door for authors: `controller_manager.sdk` and `testing`."""
