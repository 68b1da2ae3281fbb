"""Guided adversarial attacks and training for image classifiers."""
