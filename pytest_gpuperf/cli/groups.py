"""Groups of commands that suggest the nearest one for an unknown name."""

from __future__ import annotations

import difflib

import click


class CommandGroup(click.Group):
    """A group of commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument.

        Raises:
            click.UsageError: There is none; the message names the nearest one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near or "Did you mean" in error.message:
                raise
            text = f"{error.message.rstrip('.')}. Did you mean '{near[0]}'?"
            raise click.UsageError(text, ctx) from None
