"""The engine's own record of a run, short or long: its parts in, rows of tables out."""
