"""GPOKS: optimistic knapsack sampling with Gaussian processes."""
