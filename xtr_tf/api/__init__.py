"""The public Python API: what `import xtr_tf` offers.

    loading.py       `load` and `open`: find and load models and exported indexes
    model.py         `Model`: an encoder that indexes, scores and evaluates
    index.py         `Index`: searches and explains; `OpenedIndex` is an exported one
    live_index.py    `LiveIndex`: an index that can change; `save` publishes a version
    training.py      `train`: fine-tunes a `Model` on pairs
    requests.py      converts keywords to a signature's inputs, and its outputs to results
    results.py       `Hit`, `Hits`, `Explanation`, `Evaluation`: frozen, printable
    html.py          renders results in a notebook

The commands use the same objects. This module imports nothing, and TensorFlow is imported only where it is
needed: `open` and searches in an opened index never import it.
"""
