"""The location model of dynatops at the paper's size, from check-ins on Spark to the figure."""
