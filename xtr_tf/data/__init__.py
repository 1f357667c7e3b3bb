"""Training and development data: readers of the usual formats, sampling, and batches for `tf.data`.

Text and its bookkeeping; ids come from the tokenizer, vectors from the encoder. Only
`batches.py` and the TFRecord reader need TensorFlow.
"""
