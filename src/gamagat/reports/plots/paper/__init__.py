"""Pictures on paper, by matplotlib; apart, so that only who draws waits for it."""
