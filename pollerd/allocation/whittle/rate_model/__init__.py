"""Rate model: a Bayesian filter over a grid of change rates, with drift, priors and an activity clock."""
