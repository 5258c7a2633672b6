"""Reports on runs: tables, plots and one page on which every question can be inspected."""
