"""The engine's iterations: when they ended, what they computed, what that cost."""
