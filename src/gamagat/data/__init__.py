"""Data sets: `core` holds the contract, every other file is one source."""
