"""Reading a profile: its annotations, queues, groups of rows, and stretches of time."""
