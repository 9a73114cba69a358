"""The planner: where stores go and who keeps what (planning §5, storing §IV). A pure function without memory."""
