"""The vocabulary: pure functions without input, output or global state."""
