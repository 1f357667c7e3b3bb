"""Reading the checkpoints people own into an encoder directory, and writing them back out.

Every format is one function that returns `{name: LazyTensor}`; `naming.py` holds, as data, what
those names are called here; `importing.py` and `exporting.py` stream from one to the other.
"""
