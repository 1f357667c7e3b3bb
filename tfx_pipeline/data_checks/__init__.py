"""What data must satisfy before a model is made of them; every check returns sentences."""
