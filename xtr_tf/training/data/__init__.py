"""Training data: examples from every format, sampling, and batches for `tf.data`.

    sources.py          opens the examples or datasets of a `SourceConfig`, and detects the format
    examples.py         the training example; reads examples from JSONL and TSV
    judged.py           examples from test collections, which `xtr_tf.collections` reads; hard negatives
    cloze.py            examples from passages without questions
    tfrecords.py        examples from TFRecords
    teacher_scores.py   a teacher's scores from a separate file
    teacher_vectors.py  a teacher's token vectors as targets
    dev_sets.py         development sets as ids
    draws.py            random choice of positives and negatives
    sampling.py         which example is at which position of the stream
    batches.py          tokenized batches of texts as a `tf.data` stream
    tokenized.py        the same from examples that were tokenized beforehand
    tokenizing.py       tokenizes texts beforehand

Knows the data of one run. `xtr_tf.collections` knows how collections are stored.
"""
