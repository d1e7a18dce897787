"""How the labels of a page's table are those of an experiment's: a module for each family of experiments."""
