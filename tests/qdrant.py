"""What stands in for a Qdrant server, which no package brings? The client's own local mode, behind Qdrant's HTTP API.

annai is given the URL of a server, as its users give it: what it sends is sent, and what it gets is what the local mode
finds. Each first part of a path is a server of its own. `ANNAI_QDRANT_URL` names a real one.
"""

import os
import socket
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import uvicorn
from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

Client = Any
"""The client in its local mode, a third party's object."""

Answer = Any
"""What it answers: third party's objects."""

_servers: defaultdict[str, Any] = defaultdict(lambda: QdrantClient(":memory:"))

_to_json = TypeAdapter[Any](Any)


def _create(server: Client, name: str, sent: bytes) -> Answer:
    made = models.CreateCollection.model_validate_json(sent)
    return server.create_collection(name, vectors_config=made.vectors)


def _update(server: Client, name: str, sent: bytes) -> Answer:
    return server.update_collection(name, vectors_config=models.UpdateCollection.model_validate_json(sent).vectors)


def _index(server: Client, name: str, sent: bytes) -> Answer:
    field = models.CreateFieldIndex.model_validate_json(sent)
    return server.create_payload_index(name, field.field_name, field_schema=field.field_schema)


def _scroll(server: Client, name: str, sent: bytes) -> Answer:
    page = models.ScrollRequest.model_validate_json(sent)
    payload = page.with_payload or False
    points, offset = server.scroll(name, limit=page.limit or 10, offset=page.offset, with_payload=payload)
    return {"points": points, "next_page_offset": offset}


def _query(server: Client, name: str, sent: bytes) -> Answer:
    query = models.QueryRequest.model_validate_json(sent)
    return server.query_points(
        name,
        query=query.query,
        using=query.using,
        limit=query.limit or 10,
        query_filter=query.filter,
        with_payload=query.with_payload or False,
    )


CALLS: dict[tuple[str, str], Callable[[Client, str, bytes], Answer]] = {
    ("GET", ""): lambda server, name, _: server.get_collection(name) if name else server.get_collections(),
    ("PUT", ""): _create,
    ("PATCH", ""): _update,
    ("DELETE", ""): lambda server, name, _: server.delete_collection(name),
    ("PUT", "index"): _index,
    ("PUT", "points"): lambda server, name, sent: server.upsert(
        name, models.PointsList.model_validate_json(sent).points
    ),
    ("POST", "points/delete"): lambda server, name, sent: server.delete(
        name, models.PointIdsList.model_validate_json(sent).points
    ),
    ("POST", "points/count"): lambda server, name, _: server.count(name),
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/query"): _query,
}
"""What is answered, by method and by what follows the collection's name; bodies are the client's own models."""


async def _call(request: Request) -> JSONResponse:
    """One call after the other: the local mode is no program for several."""
    server, name, action = (request.path_params.get(each, "") for each in ("server", "name", "action"))
    sent = await request.body()
    try:
        result = CALLS[request.method, action](_servers[server], name, sent)
    except (ValueError, LookupError) as error:
        return JSONResponse({"status": {"error": str(error)}, "time": 0}, 400)
    return JSONResponse({"result": _to_json.dump_python(result, mode="json"), "status": "ok", "time": 0})


def main() -> None:
    """Serve on a port that standard output names, until standard input ends."""
    # It advises a server for many points, and for indexes.
    warnings.simplefilter("ignore")
    methods = ["GET", "PUT", "POST", "PATCH", "DELETE"]
    paths = ("", "/{name}", "/{name}/{action:path}")
    application = Starlette(routes=[Route(f"/{{server}}/collections{path}", _call, methods=methods) for path in paths])
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)

    def end_with_the_tests() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_the_tests, daemon=True).start()
    uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off")).run(sockets=[listening])


if __name__ == "__main__":
    main()
