"""The retriever, its export, and the gate that an export must pass.

One module of tokenizer, encoder, token search, scoring and documents becomes one SavedModel.
"""
