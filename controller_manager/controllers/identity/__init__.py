"""Who somebody is, and whom to trust (SIG Auth)."""
