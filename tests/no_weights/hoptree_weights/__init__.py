"""An empty package in the place of hoptree-weights, for processes that tests start."""
