"""Imports other projects' checkpoints as encoder directories, and exports them again.

Every format is one function that returns `{name: LazyTensor}`. `naming.py` maps those names to ours, as
data; `importing.py` and `exporting.py` stream from one to the other.
"""
