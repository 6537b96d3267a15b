"""Work on many pods, a part in each turn of the event loop."""
