"""Training data: examples from every format, sampling, and batches for `tf.data`.

    sources.py       from a `SourceConfig` to its examples or datasets, recognising the format
    examples.py      what an example is; examples from JSONL and TSV
    judged.py        examples from test collections, which `xtr_tf.collections` reads; hard negatives
    tfrecords.py     examples from TFRecords
    sampling.py      which example is at which position of the stream
    batches.py       texts to tokenized batches as a `tf.data` stream
    tokenized.py     the same from examples that were tokenized beforehand
    tokenizing.py    tokenizes texts beforehand

Knows one run's data; what a collection looks like on disk is `xtr_tf.collections`' business.
"""
