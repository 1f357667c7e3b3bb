"""Builds a token index from vectors that need not fit in memory, and defines its directory on disk."""
