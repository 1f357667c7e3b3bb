"""The TFX pipeline: from data to a blessed, pushed version of a retriever.

`pipeline.py` defines the DAG, `components/` its own components, `runners/` where it runs.
Importing this package imports no TFX; its modules do.
"""
