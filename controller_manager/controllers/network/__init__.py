"""Controllers of services and of what stands behind them."""
