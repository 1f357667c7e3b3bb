"""From documents to token vectors on disk: passages, encoding, runners, and the store itself."""
