"""The paper's tables, measured: one file for each, a cache of trained networks, and results side by side."""
