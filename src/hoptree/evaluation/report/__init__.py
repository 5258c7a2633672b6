"""Reports on runs: tables, plots, and a page to inspect every question."""
