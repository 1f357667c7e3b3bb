"""A page for trying queries. It uses the public endpoint `/v1/search` with `explain`.

The page is one file without a build step or external assets. It works with all retrievers of xtr-tf.
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
        models: Returns the names of the served models.
    """

    def __init__(self, models: Callable[[], Iterable[str]]) -> None:
        self._models = models

    def pages(self) -> dict[str, HttpResponse]:
        """Returns the fixed pages, here the playground, by path."""
        html = resources.files("serving.server.wire").joinpath("playground.html").read_bytes()
        headers = (("content-security-policy", _POLICY), ("x-content-type-options", "nosniff"))
        return {"/": HttpResponse(html, content_type="text/html; charset=utf-8", headers=headers)}

    def routes(self) -> dict[str, Route]:
        """Returns the endpoints by path."""
        return {"/playground/models": self.list_models}

    async def list_models(self, request: HttpRequest, record: RequestRecord) -> HttpResponse:
        """Answers with the names of the models."""
        return HttpResponse(json.dumps({"models": sorted(self._models())}, ensure_ascii=False).encode())
