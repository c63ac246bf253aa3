"""GPU profiles: what they show of a run's iterations and devices, and what they lack."""
