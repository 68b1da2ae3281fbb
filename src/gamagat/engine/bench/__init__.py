"""Speed: how fast our attack and our training are beside others, and how far from what the machine can do."""
