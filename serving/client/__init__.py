"""A client for retrievers, on xtr-tf's server or TensorFlow Serving alike.

A folder to be copied to where it is needed. It imports grpcio and protobuf and nothing else: whoever asks
for documents should not have to install a gigabyte of TensorFlow, nor wait ten seconds for its import, only
for its message classes (`messages` describes the few that are needed). `sharded`, which is not imported
here, needs NumPy and xtr-tf.

Example:
    >>> from serving.client import Client
    >>> with Client("127.0.0.1:8500") as client:
    ...     for hit in client.search("highest mountain in Africa").documents:
    ...         print(hit.id, hit.score)
"""

from .client import AsyncClient as AsyncClient
from .client import Client as Client
from .client import SearchOptions as SearchOptions
from .client import tls_credentials as tls_credentials
from .results import ClientError as ClientError
from .results import Hit as Hit
from .results import Match as Match
from .results import Prediction as Prediction
from .results import SearchResult as SearchResult
from .results import Tensor as Tensor
