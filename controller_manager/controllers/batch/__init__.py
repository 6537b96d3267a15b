"""Work that ends: jobs, and what becomes of them (SIG Apps)."""
