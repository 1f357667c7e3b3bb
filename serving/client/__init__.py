"""A client for retrievers, served by xtr-tf or by TensorFlow Serving.

You can copy this folder into another project. It imports only grpcio and protobuf, so that a program that
searches does not have to install TensorFlow and wait for its import to get a few message classes (`messages`
describes them). `sharded`, which is not imported here, also needs NumPy and xtr-tf.

Example:
    >>> from serving.client import Client
    >>> with Client("127.0.0.1:8500") as client:
    ...     for hit in client.search("highest mountain in Africa").documents:
    ...         print(hit.id, hit.score)
"""

from .async_client import AsyncClient as AsyncClient
from .base import SearchOptions as SearchOptions
from .base import tls_credentials as tls_credentials
from .client import Client as Client
from .results import ClientError as ClientError
from .results import Hit as Hit
from .results import Match as Match
from .results import Prediction as Prediction
from .results import SearchResult as SearchResult
from .results import Tensor as Tensor
