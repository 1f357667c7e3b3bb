"""Adapters for other libraries. Each module needs the library that it is named after.

    langchain.py      a LangChain retriever        needs langchain-core
    llama_index.py    a LlamaIndex retriever       needs llama-index-core
    mteb.py           a model for MTEB's tasks     needs mteb

xtr-tf installs none of these libraries. This module imports nothing.
"""
