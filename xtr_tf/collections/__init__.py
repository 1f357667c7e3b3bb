"""Documents, queries and judgements: reading every format they come in.

Used by training, encoding and evaluation alike. Knows no model and, but for TFRecords, no TensorFlow.
"""
