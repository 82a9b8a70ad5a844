"""A service on this machine with the real formats of OpenAI, Gemini and rerankers that fails on demand."""

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from annai.embedders.base import Vectors, load_embedder
from annai.embedders.hashing import HashingEmbedder
from annai.errors import EmbedderError
from annai.models.remote import Json
from annai.settings import Embedding

Answer = Callable[[Json], Json]


class Moody(HashingEmbedder):
    """Fails while its service is down."""

    down = True

    def embed_sums(self, texts: Sequence[str]) -> Vectors:
        """Refuse, or pass them on."""
        if self.down:
            raise EmbedderError("The service is down; start it.")
        return super().embed_sums(texts)


@dataclass
class ReceivedRequest:
    """One request that the service received."""

    path: str
    headers: dict[str, str]
    body: Json


@dataclass
class Service:
    """The requests that the service received, and how it answers the next ones before it answers correctly."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    planned: deque[dict[str, Any]] = field(default_factory=deque)
    """Each: status, headers, body (text), cut (bytes missing at the end), change (applied to the answer) or hang."""
    change: Answer | None = None
    """Applied to every answer, as if there were another model."""
    release: threading.Event = field(default_factory=threading.Event)
    """Set to end the requests that `hang`."""
    active: int = 0
    max_active: int = 0
    gate: threading.Barrier | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def texts(self) -> list[str]:
        """Every text to embed, in the order of the requests."""
        found: list[str] = []
        for each in self.requests:
            if "requests" in each.body:
                found += [request["content"]["parts"][0]["text"] for request in each.body["requests"]]
            else:
                found += each.body.get("input", [])
        return found


def vectors(texts: list[str], dimension: int) -> list[list[float]]:
    """Vectors of hashed words, truncated: similar texts are close to each other."""
    rows = load_embedder(Embedding(provider="hashing")).embed_documents(texts)[:, :dimension]
    return [[float(each) for each in row + 0.001] for row in rows]


def openai_answer(body: Json, dimension: int = 32) -> Json:
    rows = vectors(body["input"], body.get("dimensions", dimension))
    data = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}


def gemini_answer(body: Json) -> Json:
    texts = [request["content"]["parts"][0]["text"] for request in body["requests"]]
    rows = vectors(texts, 256)
    size = body["requests"][0]["outputDimensionality"]
    return {"embeddings": [{"values": (row * 12)[:size]} for row in rows]}


RERANK_FIELDS = {
    "/cohere/": ({"model", "query", "documents"}, {"top_n", "max_tokens_per_doc", "priority"}),
    "/jina/": ({"model", "query", "documents"}, {"top_n", "return_documents"}),
    "/tei/": ({"query", "texts"}, {"truncate", "truncation_direction", "raw_scores", "return_text"}),
    "/vllm/": (
        {"query", "documents"},
        {"model", "top_n", "truncate_prompt_tokens", "truncation_side", "use_activation"},
    ),
}
"""Part of the path → the fields that a service needs and those that it takes, by its own schema."""

MAX_WORDS = 200
"""What the models behind TEI and vLLM take."""


def rerank_refusal(path: str, body: Json) -> tuple[int, str] | None:
    """The status and the words with which a service refuses a request, as each does; None if it takes it."""
    kind = next((each for each in RERANK_FIELDS if each in path), "")
    if not kind:
        return None
    required, optional = RERANK_FIELDS[kind]
    texts = body.get("texts", body.get("documents", []))
    is_long = any(len(text.split()) > MAX_WORDS for text in texts)
    refusals = {
        (422, f"unknown field: parameter '{each}' is not a valid field") for each in body.keys() - required - optional
    } | {
        (422, f"Failed to deserialize the JSON body into the target type: missing field `{each}` at line 1")
        for each in required - body.keys()
    }
    if kind == "/tei/":
        # It knows nothing of other fields.
        refusals = {each for each in refusals if "missing" in each[1]}
        if not refusals and len(texts) > 32:
            refusals.add((413, f"batch size {len(texts)} > maximum allowed batch size 32"))
        if not refusals and is_long and not body.get("truncate"):
            refusals.add((413, "`inputs` must have less than 200 tokens"))
    if kind == "/vllm/" and is_long and body.get("truncate_prompt_tokens") != -1:
        refusals.add((400, "This model's maximum context length is 200 tokens. However, your request has more."))
    return min(refusals, default=None)


def rerank_answer(body: Json) -> Json:
    """Texts with more of the query's words score higher; in TEI's form if the request has `texts`."""
    words = set(re.findall(r"\w+", body["query"].lower()))
    texts = body.get("documents", body.get("texts"))
    scores = [len(words & set(re.findall(r"\w+", text.lower()))) / max(len(words), 1) for text in texts]
    name = "score" if "texts" in body else "relevance_score"
    rows = sorted(({"index": number, name: score} for number, score in enumerate(scores)), key=lambda row: -row[name])
    return rows if "texts" in body else {"model": body.get("model", ""), "results": rows}


ANSWERS: dict[str, Answer] = {
    "/embeddings": openai_answer,
    ":batchEmbedContents": gemini_answer,
    "/rerank": rerank_answer,
}


@contextmanager
def running() -> Iterator[Service]:
    """A service on a free port."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with service.lock:
                service.requests.append(
                    ReceivedRequest(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                )
                service.active += 1
                service.max_active = max(service.max_active, service.active)
                planned = service.planned.popleft() if service.planned else {}
            try:
                if service.gate:
                    service.gate.wait(timeout=60)
                if planned.get("hang"):
                    service.release.wait(timeout=60)
                    return
                self.answer(body, planned)
            finally:
                with service.lock:
                    service.active -= 1

        def answer(self, body: Json, planned: dict[str, Any]) -> None:
            status = planned.get("status", 200)
            answer = next((make for end, make in ANSWERS.items() if self.path.endswith(end)), None)
            text = planned.get("body")
            if not planned and (refusal := rerank_refusal(self.path, body)):
                status, text = refusal[0], json.dumps({"error": refusal[1]})
            if text is None and status == 200 and answer:
                made = answer(body)
                made = service.change(made) if service.change else made
                text = json.dumps(planned["change"](made) if "change" in planned else made)
            sent = (text or json.dumps({"error": {"message": "as planned", "code": status}})).encode()
            self.send_response(status)
            for name, value in planned.get("headers", {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent[: len(sent) - planned.get("cut", 0)])
            if planned.get("cut"):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        service.release.set()
        server.shutdown()
        server.server_close()
