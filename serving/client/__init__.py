"""A client for retrievers, on xtr-tf's server or TensorFlow Serving alike.

A folder to be copied to where it is needed: it imports grpcio and protobuf and nothing else, least of
all TensorFlow (only `sharded_client`, which is not imported here, needs xtr-tf and NumPy).

Example:
    >>> from serving.client import Client
    >>> with Client("127.0.0.1:8500") as client:
    ...     for document in client.search("highest mountain in Africa").documents:
    ...         print(document.id, document.score)
"""

from .async_client import AsyncClient as AsyncClient
from .client import Client as Client
from .client_error import ClientError as ClientError
from .results import Document as Document
from .results import Match as Match
from .results import Prediction as Prediction
from .results import SearchResult as SearchResult
from .results import Tensor as Tensor
from .search_options import SearchOptions as SearchOptions
from .tls import tls_credentials as tls_credentials
