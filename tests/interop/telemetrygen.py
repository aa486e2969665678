"""The Collector's load generator, sending traces, metrics and logs with the Go SDK."""

from checks import expect
from processes import Process

WORKERS = 2
TRACES_PER_WORKER = 25
CHILDREN_PER_TRACE = 3
N_TRACES = WORKERS * TRACES_PER_WORKER
N_SPANS = N_TRACES * (1 + CHILDREN_PER_TRACE)
# Points of metrics, and log records.
ITEMS_PER_WORKER = 50
N_ITEMS = WORKERS * ITEMS_PER_WORKER

# An attribute of every span, beyond ASCII.
CITY = "Z\u00fcrich \u691c\u7d22"

# A lost export of traces does not change telemetrygen's exit status: the SDK reports it through
# Go's standard logger, whose lines begin with such a date. Its own log lines carry a level.
TROUBLE = r"^\d{4}/\d\d/\d\d |\t(WARN|ERROR|FATAL)\t"


class Telemetrygen:
    """Runs of `telemetrygen`."""

    def __init__(self, folder, binary):
        self._folder = folder
        self._binary = binary

    def send(self, name, signal, protocol, endpoint):
        """Sends a fixed count of one signal, as service `name`; no error may be reported."""
        command = [self._binary, signal, "--otlp-insecure", "--otlp-endpoint", endpoint]
        command += ["--workers", WORKERS, "--rate", "0", "--service", name]
        if protocol == "http":
            command.append("--otlp-http")
        if signal == "traces":
            command += ["--traces", TRACES_PER_WORKER, "--child-spans", CHILDREN_PER_TRACE]
            command += ["--telemetry-attributes", f'city="{CITY}"']
        else:
            command += [f"--{signal}", ITEMS_PER_WORKER]
        with Process(self._folder, f"{name}-{signal}", command) as process:
            expect(f"exit status of telemetrygen {signal}", process.await_end(60), 0)
            expect(f"trouble in the log of telemetrygen {signal}", process.lines(TROUBLE), [])


def check(telemetrygen, server, sent, name, protocol):
    """telemetrygen sends straight to the server."""
    endpoint = server.grpc if protocol == "grpc" else server.http
    for signal in ("traces", "metrics", "logs"):
        telemetrygen.send(name, signal, protocol, endpoint)
    return arrived(server, sent, name)


def arrived(server, sent, name):
    """The spans of one run of all three signals are stored, each once and whole."""
    sent.update(spans=N_SPANS, points=N_ITEMS, log_records=N_ITEMS)
    service = f"service_name = '{name}'"
    server.await_rows("spans", service, N_SPANS)
    facts = server.sql(f"""
        SELECT count(DISTINCT trace_id) AS traces, count(DISTINCT span_id) AS spans,
            count(*) FILTER (WHERE parent_span_id IS NULL) AS roots,
            count(*) FILTER (WHERE attributes['city'] = '{CITY}') AS cities
        FROM spans WHERE {service}""")[0]
    expected = {"traces": N_TRACES, "spans": N_SPANS, "roots": N_TRACES, "cities": N_SPANS}
    expect("distinct ids and values", facts, expected)
    return f"{N_SPANS} spans in {N_TRACES} traces, {N_ITEMS} points, {N_ITEMS} log records"
