"""The library: what `import xtr_tf` offers, a few objects over the rooms below.

    loading.py       `load`, `open`: where models and exported indexes come from
    model.py         `Model`: an encoder that indexes, scores and is measured
    index.py         `Index`: what can be searched; exported by `open`, growing as `LiveIndex`
    live_index.py    `LiveIndex`: documents come and go; `save` publishes a version
    training.py      `train`: pairs to a better `Model`
    requests.py      from keywords to the inputs of a signature, from its outputs to results
    results.py       `Hit`, `Hits`, `Explanation`, `Evaluation`: frozen, printable
    html.py          how results look in a notebook

The commands are made of the same objects. Nothing is imported here, and TensorFlow only by what needs it:
`open` and searching what it opened never do.
"""
