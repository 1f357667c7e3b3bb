"""From token hits to documents: f_XTR' and f_ColBERT.

| file | |
|---|---|
| `token_hits.py` | what a search returns, its cut-offs and m_i |
| `xtr.py` | f_XTR' of hits, in TensorFlow, for serving |
| `maxsim.py` | f_ColBERT of vectors, in TensorFlow, for serving |
| `ranking.py` | scores to the best documents, in TensorFlow |
| `reference.py` | all of it in NumPy, for what checks or ranks outside a graph; imports no TensorFlow |

Training has its own op for the maxima of a whole batch, with a gradient: `training/losses/maxsim.py`.
"""
