"""Indexes and models for other libraries; each file is imported only where its library is installed.

    langchain.py      a LangChain retriever        needs langchain-core
    llama_index.py    a LlamaIndex retriever       needs llama-index-core
    mteb.py           a model for MTEB's tasks     needs mteb

None of these libraries comes with xtr-tf. Nothing is imported here.
"""
