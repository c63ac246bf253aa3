"""Records of one request tied together across vantages, and its instants."""
