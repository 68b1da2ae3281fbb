"""Defences: `core` is the contract, `adversary` and `objectives` are its words, other files recipes."""
