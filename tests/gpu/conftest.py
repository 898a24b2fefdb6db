"""Marks of all tests that need a GPU, and imports for those that run pytest in their own process."""

import pytest
import torch

import loaded_once

loaded_once.load()
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test of this folder."""
    item.add_marker(pytest.mark.gpu)
    item.add_marker(NEEDS_GPU)
