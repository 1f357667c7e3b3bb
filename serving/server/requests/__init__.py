"""What all requests pass through: checks, limits, batches, threads, metrics and logs.

Knows nothing of protocols, or of which models there are.
"""
