"""Commands of simulations and of the papers' tables."""
