"""Runs, scores, statistics and reports."""
