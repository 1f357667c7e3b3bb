"""A client for retrievers, on xtr-tf's server or TensorFlow Serving alike.

Copy this folder to where you need it. It imports only grpcio and protobuf: a program that asks for documents
should not have to install a gigabyte of TensorFlow, or wait ten seconds for its import, for a few message
classes (`messages` describes those that are needed). `sharded`, which is not imported here, needs NumPy and
xtr-tf.

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
