"""The wrapper around each hook of this plugin: after an error of its own, pytest goes on.

It is imported without `--gpuperf`, so it imports nothing.
"""

from __future__ import annotations

from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pytest

    from pytest_gpuperf.plugin.own_errors import OwnErrors


def guarded(hook: Callable[..., Any], config: pytest.Config | None = None) -> Callable[..., Any]:
    """Return a hook after whose own errors pytest goes on.

    Args:
        hook: The hook.
        config: pytest's; None for a hook whose first argument is it, or has it.
    """

    def own(args: tuple[Any, ...]) -> OwnErrors:
        from pytest_gpuperf.plugin.own_errors import OwnErrors

        return OwnErrors.of(config or getattr(args[0], "config", args[0]))

    @wraps(hook)
    def plain(*args: Any) -> Any:
        try:
            return hook(*args)
        except Exception as error:
            return own(args).settle(hook.__name__, error)

    @wraps(hook)
    def around(*args: Any) -> Generator[None, Any, Any]:
        inner = hook(*args)
        try:
            next(inner)
        except Exception as error:
            own(args).settle(hook.__name__, error)
            return (yield)
        try:
            outcome = yield
        except BaseException as raised:
            try:
                inner.throw(raised)
            except StopIteration as end:
                return end.value
            except Exception as error:
                if error is not raised:
                    own(args).note(hook.__name__, error)
            raise
        try:
            inner.send(outcome)
        except StopIteration as end:
            return end.value
        except Exception as error:
            own(args).settle(hook.__name__, error)
        return outcome

    return around if isgeneratorfunction(hook) else plain


def register(config: pytest.Config, plugin: object, name: str) -> None:
    """Register an object with hooks, each of them guarded."""
    for hook in dir(plugin):
        if hook.startswith("pytest_"):
            setattr(plugin, hook, guarded(getattr(plugin, hook), config))
    config.pluginmanager.register(plugin, name)
