"""The parts of one run's page."""
