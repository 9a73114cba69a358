"""What a network wrote down, on Spark: tables, demand, and whatever is computed from data."""
