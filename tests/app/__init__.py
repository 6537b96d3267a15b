"""Start-up and shut-down."""
