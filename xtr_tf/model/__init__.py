"""The model: tokenizer, vocabulary, the T5 encoder with XTR's projection, and its folder on disk."""
