"""What all requests pass through: checks, limits, batches, threads, metrics and logs.

Knows nothing about protocols, or which models there are.
"""
