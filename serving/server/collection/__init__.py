"""One model out of many servers: partitions of a collection, asked together and merged to one answer.

| file | |
|---|---|
| `addresses.py` | which servers hold which partition |
| `replica.py` | one server of one partition |
| `partition.py` | the servers of one partition: which is asked, when another is |
| `request.py` | the parameters of a search over partitions |
| `search.py` | from a request to the merged answer |
| `servable.py` | a version of the collection, as the rest of the server knows versions |
| `manager.py` | which version of the collection answers |
"""
