"""Service accounts and certificate authorities (SIG Auth)."""
