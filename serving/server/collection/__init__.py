"""One model served by many servers: the partitions of a collection, queried together and merged.

| file | |
|---|---|
| `addresses.py` | which servers have which partition |
| `replica.py` | one server of one partition |
| `partition.py` | the servers of one partition: which is called first, and when another is called |
| `request.py` | the parameters of a search over partitions |
| `search.py` | from a request to calls of partitions |
| `merged.py` | from their answers to the merged answer |
| `servable.py` | a version of the collection, in the form that the rest of the server expects |
| `manager.py` | which version of the collection answers |
| `metrics.py` | metrics of calls to partitions |
"""
