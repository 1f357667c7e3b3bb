"""A page to try queries on. It asks `/v1/search` for explanations, as anybody may.

The page is a file without build step or foreign assets. It works with any retriever that xtr-tf exports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from importlib import resources

from serving.server.requests.observer import RequestRecord
from serving.server.wire.http_server import HttpRequest, HttpResponse
from serving.server.wire.rest_api import Route

# The page runs its own script and style, and talks only to this server.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Playground:
    """The page, and the names of the models that it offers.

    Args:
        models: Names the models that are served.
    """

    def __init__(self, models: Callable[[], Iterable[str]]) -> None:
        self._models = models

    def pages(self) -> dict[str, HttpResponse]:
        """Returns the page by its path."""
        html = resources.files("serving.server.wire").joinpath("playground.html").read_bytes()
        headers = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))
        return {"/": HttpResponse(html, content_type="text/html; charset=utf-8", headers=headers)}

    def routes(self) -> dict[str, Route]:
        """Returns the endpoints by their paths."""
        return {"/playground/models": self.list_models}

    async def list_models(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers with the names of the models."""
        return HttpResponse(json.dumps({"models": sorted(self._models())}, ensure_ascii=False).encode())
