"""Where brokers stand on the ring, so that events reach those who want them over few others (DYNATOPS §III)."""
