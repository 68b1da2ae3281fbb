"""Networks: `core` holds the contract and the loader, every other file is one architecture."""
