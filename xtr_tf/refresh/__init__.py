"""New versions of token vectors and indexes, made from the last ones and from what has changed."""
