"""From token hits to document scores: f_XTR' and f_ColBERT.

| file | |
|---|---|
| `token_hits.py` | the result of a token search, with cut-offs and m_i |
| `xtr.py` | f_XTR' from hits, in TensorFlow, for serving |
| `maxsim.py` | f_ColBERT from vectors, in TensorFlow, for serving |
| `ranking.py` | from scores to the best documents, in TensorFlow |
| `reference.py` | all of these in NumPy, for checks and rankings outside a graph; imports no TensorFlow |

Training has its own op, with a gradient, for the maxima of a whole batch: `training/losses/maxsim.py`.
"""
