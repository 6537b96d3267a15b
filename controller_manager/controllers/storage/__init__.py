"""Controllers of volumes and claims (SIG Storage)."""
