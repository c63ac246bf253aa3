"""The command line: parses and prints. One module per command in `commands/`, found by listing."""
