"""The network that attacks see: another arithmetic for the same function, checked against the original."""
