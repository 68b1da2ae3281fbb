"""Training: a recipe, a network and a data set become weights; a kill loses one epoch at the most."""
