"""Imports for tests that run pytest in their own process."""

import loaded_once

loaded_once.load()
