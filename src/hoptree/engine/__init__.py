"""What runs a method: context, calls, cache, budget, trace and result."""
