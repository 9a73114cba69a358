"""Stages: a DataFrame in, one table out, ending in the select that is its schema. No paths, no sessions, no clocks."""
