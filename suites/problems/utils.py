"""Comparison of outputs for the problems in the form of GPU MODE."""

import torch


def match(output, expected, tolerance):
    """Return whether the output is right, and why not."""
    if output.shape != expected.shape:
        return False, f"shape {tuple(output.shape)}, expected {tuple(expected.shape)}"
    if torch.allclose(output, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item()):
        return True, ""
    return False, f"largest difference {(output - expected).abs().max().item():.3g}"
