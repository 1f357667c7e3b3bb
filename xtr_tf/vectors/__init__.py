"""From documents to token vectors on disk.

    encode.py              a whole job: `encode_corpus` plans, encodes unfinished shards, writes the manifest
    plan.py                which documents go into which shard, and which vectors are reused
    job.py                 how one shard is encoded: `encode_shard`; and how the progress of a job is watched
    document_encoder.py    documents to vectors with a loaded model
    passages.py            windows over long documents, batches of similar length, pruning
    shard.py               the arrays of one shard, in memory and as files
    store.py, manifest.py  a finished directory: `TokenVectors`, and its manifest
    update.py              the next version of a directory: documents that stay, and new ones
    runners.py             the interface of runners; `run_locally`
    beam.py, staged.py     runners on Apache Beam, with shared files or a staging folder

Knows nothing about indexes and searching.
"""
