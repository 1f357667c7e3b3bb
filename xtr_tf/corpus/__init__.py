"""From documents to token vectors on disk: readers, passages, encoding, and the format itself."""
