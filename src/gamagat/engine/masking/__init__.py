"""Whether a network is robust or only hides its gradients: sanity checks, and one verdict of them all."""
