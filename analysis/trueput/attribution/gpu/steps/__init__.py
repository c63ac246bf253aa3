"""The steps of a profile: which iterations they are, and how their time is divided."""
