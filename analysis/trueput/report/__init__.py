"""Pictures: the only package that imports altair and vl-convert."""
