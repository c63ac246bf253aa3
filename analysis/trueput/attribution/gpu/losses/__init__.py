"""What a profile lacks of what ran: operations, replays of graphs, whole steps."""
