"""Between a client and the server: sees every request, and can answer or fail in its place."""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# Longer than anything takes that happens at all.
DEADLINE_S = 30


class Proxy:
    """What it is not told to do, it leaves to the server."""

    def __init__(self, target):
        self._seen = []
        self._planned = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self, urlsplit(target).netloc))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def plan(self, *plans):
        """What becomes of the next requests: "lose", or a status to refuse them with."""
        with self._lock:
            self._planned.extend(plans)

    def taken(self):
        """The requests since the last look."""
        with self._lock:
            seen, self._seen = self._seen, []
        return seen

    def take(self, call):
        with self._lock:
            self._seen.append(call)
            return self._planned.pop(0) if self._planned else None


def handler(proxy, target):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            call = {"path": self.path, "headers": headers, "body": json.loads(body), "reply": None}
            plan = proxy.take(call)
            if isinstance(plan, int):
                self.answer(plan, "application/json", b"{}")
                return
            onward = http.client.HTTPConnection(target, timeout=DEADLINE_S)
            onward.request("POST", self.path, body, headers)
            reply = onward.getresponse()
            text = reply.read()
            onward.close()
            call["reply"] = json.loads(text)
            if plan == "lose":
                # The server has done its work, and nobody will hear of it.
                self.close_connection = True
                return
            self.answer(reply.status, reply.headers["content-type"], text)

        def answer(self, status, content_type, text):
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler
