"""Fixtures of tests that run pytest in their own process."""

from runs_of_pytest import _only_this_plugin, add_recording, fake_gpu_runs, forked_runs, replay

__all__ = ["_only_this_plugin", "add_recording", "fake_gpu_runs", "forked_runs", "replay"]
