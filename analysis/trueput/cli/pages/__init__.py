"""Pages for people: how a result is laid out on a terminal."""
