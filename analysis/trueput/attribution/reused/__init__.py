"""Ids that name several requests: where they stand, on which clock, and what is said of them."""
