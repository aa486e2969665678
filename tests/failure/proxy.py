"""An HTTP proxy in front of the object store, which fails or delays puts.

Usage: proxy.py UPSTREAM_PORT CONTROL_FILE

It listens on a free port of the loopback interface and prints it. The control file says what happens to puts, as
JSON, read for each of them: `refused_share` are answered 503, every second one of those after the store has taken
it; puts take their turn on a line of `bytes_per_s`. The header `Host` is handed on as it came, because requests are signed with it.
"""

import http.client
import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PUTS = ("PUT", "POST")


class Counts:
    """What was done to puts so far; the control file's neighbour shows it."""

    def __init__(self, path):
        self._path, self._lock = path, threading.Lock()
        self.values = {"puts": 0, "refused_before": 0, "refused_after": 0}

    def add(self, name):
        """Counts one."""
        with self._lock:
            self.values[name] += 1
            self._path.write_text(json.dumps(self.values), encoding="ascii")
            return self.values[name]


class Handler(BaseHTTPRequestHandler):
    """Hands requests on, one connection of its own for each."""

    protocol_version = "HTTP/1.1"
    upstream_port = 0
    control = Path()
    counts = None
    random = random.Random(1)
    line = threading.Lock()

    def _handle(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        fate = "pass"
        if self.command in PUTS:
            plan = json.loads(self.control.read_text(encoding="ascii"))
            if "bytes_per_s" in plan:
                with self.line:
                    time.sleep(length / plan["bytes_per_s"])
            self.counts.add("puts")
            if self.random.random() < plan.get("refused_share", 0):
                fate = self.random.choice(("refused_before", "refused_after"))
        if fate != "refused_before":
            status, headers, answer = self._ask(body)
        if fate != "pass":
            self.counts.add(fate)
            status, headers, answer = 503, [], b"<Error><Code>SlowDown</Code></Error>"
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        # What a HEAD would have sent counts, not what follows.
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _ask(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream_port, timeout=60)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            dropped = ("connection", "transfer-encoding", "server", "date")
            headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in dropped]
            return answer.status, headers, answer.read()
        except OSError:
            return 502, [], b""
        finally:
            connection.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def log_message(self, *_):
        """Says nothing."""


def main():
    """Serves until it is ended."""
    Handler.upstream_port = int(sys.argv[1])
    Handler.control = Path(sys.argv[2])
    Handler.counts = Counts(Handler.control.with_suffix(".counts"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"proxy listens on {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
