"""The pytest plugin: hooks, fixtures and the object behind them."""

from pytest_gpuperf.compat.pytest_names import leave_assertions

leave_assertions()
