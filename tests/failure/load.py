"""Sends generated traces over OTLP/HTTP from its own process, and notes what became of each export.

Usage: load.py HOST:PORT OUT --senders N --traces N --seconds S [--rate EXPORTS_PER_SECOND]

With a rate, exports are due at fixed times and one that is refused is given up, so that the offered load does
not depend on the answers. Without one, each sender sends as fast as it is answered and waits a moment after a
refusal. No export is ever sent twice: one without an answer may or may not be stored, and that is noted. Each line
of OUT is one export: when it was answered, with what status (0: not at all), and its trace ids.

SIGTERM ends it early, in good order.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import threading
import time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS_PER_TRACE = 25
VALUE_CHARACTERS = 380
ANSWER_SECONDS_MAX = 30
PAUSE_SECONDS = 0.05


class Template:
    """An export of several traces, encoded once; each use has trace ids of its own."""

    def __init__(self, n_traces):
        marks = [b"MARK" + trace_idx.to_bytes(12, "big") for trace_idx in range(n_traces)]
        encoded = _export(marks).SerializeToString()
        self._places = [_places(encoded, mark) for mark in marks]
        self._encoded = encoded
        self.n_spans = n_traces * SPANS_PER_TRACE

    def body(self):
        """The bytes of an export, and its trace ids."""
        body = bytearray(self._encoded)
        ids = [os.urandom(16) for _ in self._places]
        for trace_id, places in zip(ids, self._places, strict=True):
            for place in places:
                body[place : place + 16] = trace_id
        return bytes(body), [trace_id.hex() for trace_id in ids]


def _places(encoded, mark):
    places, place = [], encoded.find(mark)
    while place >= 0:
        places.append(place)
        place = encoded.find(mark, place + 16)
    return places


def _export(trace_ids):
    export = ExportTraceServiceRequest()
    resource_spans = export.resource_spans.add()
    service = resource_spans.resource.attributes.add(key="service.name")
    service.value.string_value = "load"
    spans = resource_spans.scope_spans.add().spans
    now = time.time_ns()
    for trace_id in trace_ids:
        for span_idx in range(SPANS_PER_TRACE):
            span = spans.add(trace_id=trace_id, span_id=(span_idx + 1).to_bytes(8, "big"))
            span.name = "root" if span_idx == 0 else f"step {span_idx}"
            if span_idx:
                span.parent_span_id = (1).to_bytes(8, "big")
            span.start_time_unix_nano = now - 2_000_000_000
            span.end_time_unix_nano = now - 1_000_000_000 + span_idx
            # Hexadecimal, so that Parquet cannot make half of nothing of it.
            value = os.urandom(VALUE_CHARACTERS // 2).hex()
            span.attributes.add(key="payload").value.string_value = value
            span.attributes.add(key="step").value.int_value = span_idx
    return export


class Sender(threading.Thread):
    """One connection."""

    def __init__(self, address, template, note, due):
        super().__init__(daemon=True)
        self._address, self._template, self._note, self._due = address, template, note, due
        self._connection = None

    def run(self):
        while True:
            due = self._due()
            if due is None:
                return
            time.sleep(max(0.0, due - time.monotonic()))
            body, ids = self._template.body()
            status, retry_after = self._send(body)
            self._note(status, retry_after, ids)
            if status != 200 and due == 0.0:
                time.sleep(PAUSE_SECONDS)

    def _send(self, body):
        try:
            if self._connection is None:
                host, port = self._address.rsplit(":", 1)
                connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS_MAX)
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connection = connection
            headers = {"Content-Type": "application/x-protobuf"}
            try:
                self._connection.request("POST", "/v1/traces", body, headers)
            except (BrokenPipeError, ConnectionResetError):
                # A refusal can come before the whole body is sent.
                pass
            answer = self._connection.getresponse()
            answer.read()
            if answer.will_close:
                self._close()
            return answer.status, answer.getheader("Retry-After")
        except (OSError, http.client.HTTPException):
            self._close()
            return 0, None

    def _close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def main():
    """Runs for the given time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("out")
    parser.add_argument("--senders", type=int, required=True)
    parser.add_argument("--traces", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float)
    options = parser.parse_args()

    template = Template(options.traces)
    lock = threading.Lock()
    begin = time.monotonic()
    end = begin + options.seconds
    n_due = 0

    def due():
        nonlocal n_due
        if time.monotonic() > end:
            return None
        if options.rate is None:
            return 0.0
        with lock:
            n_due += 1
            at = begin + n_due / options.rate
        return at if at < end else None

    with open(options.out, "w", encoding="ascii") as out:

        def note(status, retry_after, ids):
            at = round(time.monotonic() - begin, 3)
            line = json.dumps({"at": at, "status": status, "retry_after": retry_after, "ids": ids})
            with lock:
                out.write(line + "\n")

        def stop(*_):
            nonlocal end
            end = 0.0

        signal.signal(signal.SIGTERM, stop)
        senders = [Sender(options.address, template, note, due) for _ in range(options.senders)]
        for sender in senders:
            sender.start()
        for sender in senders:
            while sender.is_alive():
                sender.join(0.2)


if __name__ == "__main__":
    main()
