"""The endpoints of services: the pods behind them, and the slices that show them."""
