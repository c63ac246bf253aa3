"""On which time the profiles of a run lie, and when its devices were busy there."""
