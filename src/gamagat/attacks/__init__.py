"""Attacks: `core` holds the contract, every other file is one family."""
