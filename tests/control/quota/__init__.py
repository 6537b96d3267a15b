"""What each object is charged for."""
