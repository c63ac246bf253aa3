"""One module per command; each has a function `command`, and `ORDER`, its place in the help."""
