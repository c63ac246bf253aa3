"""Decides whether a change bought anything: pure functions over rows of the public views."""
