"""The pytest plugin: hooks, fixtures and the object behind them."""
