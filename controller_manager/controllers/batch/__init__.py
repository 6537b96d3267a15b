"""Jobs (SIG Apps)."""
