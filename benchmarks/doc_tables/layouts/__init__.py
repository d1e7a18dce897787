"""Maps labels of a page's table to those of an experiment's: a module for each family of experiments."""
