"""Documents, queries and judgements: reading every format they come in.

Training, encoding and evaluation read a collection through the same code:

    document.py, dataset.py, judgements.py      what is read: Document, Query, Dataset, Judgements
    beir.py, ms_marco.py, miracl.py,
    lotte.py, open_qa.py                        who reads a folder of that layout
    loading.py                                  which layout a folder has
    corpus.py                                   the documents of a file or folder, one after the other
    given.py                                    documents given as Python objects
    records.py, lines.py, compression.py        JSONL, TSV, Parquet, TFRecord; lines; .gz .xz .bz2 .zst
    bad_records.py                              what happens to a record that cannot be used
    download.py                                 where the paper's datasets can be had

Knows no model and, but for TFRecords, no TensorFlow.
"""
