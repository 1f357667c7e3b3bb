"""Token searchers: query token vectors in, the best document tokens out, inside a TensorFlow graph."""
