"""Building a token index from vectors that need not fit in memory, and its directory on disk."""
