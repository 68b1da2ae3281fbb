"""Plots: `core` holds the contract and the registry, `paper` draws, every other file is some plots."""
