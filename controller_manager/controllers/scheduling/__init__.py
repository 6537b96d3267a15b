"""Groups of pods (SIG Scheduling)."""
