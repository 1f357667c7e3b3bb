"""Token searchers: from query token vectors to the best document tokens, inside a TensorFlow graph."""
