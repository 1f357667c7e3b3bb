"""Training data: examples from every format, sampling, and batches for `tf.data`."""
