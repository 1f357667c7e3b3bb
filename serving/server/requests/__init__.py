"""What a request passes through, whichever way it came: checks, limits, batches, threads, counting, logging.

Knows neither protocols nor which models there are.
"""
