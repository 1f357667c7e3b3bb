"""Reads documents, queries and judgements in every supported format.

Training, encoding and evaluation read collections through the same code:

    document.py, dataset.py, judgements.py      the types: Document, Query, Dataset, Judgements
    beir.py, ms_marco.py, miracl.py,
    lotte.py, open_qa.py                        one reader per folder layout
    loading.py                                  finds out which layout a folder has
    corpus.py                                   iterates over the documents of a file or folder
    given.py                                    documents given as Python objects
    records.py, lines.py, compression.py        JSONL, TSV, Parquet, TFRecord; lines; .gz .xz .bz2 .zst
    bad_records.py                              what happens to a record that cannot be used
    download.py                                 downloads the datasets of the paper

Knows no model and, except for TFRecords, no TensorFlow.
"""
