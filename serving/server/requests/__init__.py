"""What a request passes through, whichever way it came: checks, limits, batches, threads, counting, logging.

Knows neither wires nor which models there are.
"""
