"""Makes the lake, serves it, asks the questions with four clients, and asks duckdb the same over the same files."""

import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from machine import memory_gib, processor

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CLIENTS = 4
RUNS = 200
WARM_UP = 40
HOUR_NS = 3600 * 10**9
# The end of an answer in JSON that did not break off.
WHOLE = re.compile(rb'"elapsed_ms":\d+}\s*$')
# Between two looks for a trace that is not there yet.
LOOK_S = 0.01
FRESH_LIMIT_S = 60
SECOND_NS = 10**9

CONFIG = """
receivers:
  otlp: {{protocols: {{http: {{endpoint: 127.0.0.1:{otlp}}}}}}}
processors:
  tail_sampling:
    trigger: {{root_grace: 1s, idle: 5m, max_wait: 1h}}
    policies:
      - {{name: slow, type: latency, latency: {{threshold_ms: 2000}}}}
exporters:
  lake: {{path: {lake}, maintenance: {{interval: 0s}}}}
extensions:
  query:
    endpoint: 127.0.0.1:{query}
    postgres: {{enabled: false}}
    flight_sql: {{enabled: false}}
service:
  extensions: [query]
  pipelines:
    traces: {{receivers: [otlp], processors: [tail_sampling], exporters: [lake]}}
"""


def statement(name, **values):
    return (HERE / f"{name}.sql").read_text().format(**values)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`whyslow serve` over the lake."""

    def __init__(self, whyslow, lake, folder):
        self.query, self.otlp = free_port(), free_port()
        config = folder / "whyslow.yaml"
        config.write_text(CONFIG.format(otlp=self.otlp, query=self.query, lake=lake))
        self.log = open(folder / "serve.log", "w")
        self.process = subprocess.Popen(
            [whyslow, "serve", "-c", config], cwd=folder, stdout=self.log, stderr=self.log
        )
        until = time.monotonic() + 120
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit((folder / "serve.log").read_text())
            time.sleep(0.1)

    def is_ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.query, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.log.close()

    def peak_mib(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
        return 0


class Client:
    """One connection, which stays open."""

    def __init__(self, server):
        self.server = server
        self.sql = http.client.HTTPConnection("127.0.0.1", server.query, timeout=60)
        self.otlp = http.client.HTTPConnection("127.0.0.1", server.otlp, timeout=60)

    def fetch(self, sql):
        """The whole answer, unparsed: that would be time of this program, and of all its clients, because it parses one at a time."""
        self.sql.request("POST", "/v1/sql", sql, {"content-type": "text/plain", "accept": "application/json"})
        answer = self.sql.getresponse()
        body = answer.read()
        # What broke off has an error behind the time that it took.
        if answer.status != 200 or not WHOLE.search(body, len(body) - 100):
            raise RuntimeError(f"{answer.status}: {body.decode()}\n{sql}")
        return body

    def rows(self, sql):
        return json.loads(self.fetch(sql))["rows"]

    def send(self, export):
        self.otlp.request("POST", "/v1/traces", json.dumps(export), {"content-type": "application/json"})
        answer = self.otlp.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {body.decode()}")


def timed(clients, run, places):
    """Runs `run(client, place)` for each place on as many threads as there are clients; seconds of each, in order."""

    def one(client, own):
        took = []
        for place in own:
            begun = time.perf_counter()
            said = run(client, place)
            took.append(time.perf_counter() - begun if said is None else said)
        return took

    parts = [places[number :: len(clients)] for number in range(len(clients))]
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as threads:
        return [took for part in threads.map(one, clients, parts) for took in part]


def quantile(values, share):
    values = sorted(values)
    return values[max(math.ceil(share * len(values)) - 1, 0)]


# The questions.


def slow_sql(since, is_bound=True):
    """A request's evidence begins when it begins; a join that does not say so looks through all evidence."""
    bound = f"AND gpu.start_time >= TIMESTAMP '{since}'" if is_bound else ""
    return statement("slow", since=since, bound=bound)


def slow_trace(trace_id):
    """Two spans of a request of twelve seconds that ends now."""
    end = time.time_ns()
    start = end - 12 * SECOND_NS

    def spans(service, *all_spans):
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
        return {"resource": resource, "scopeSpans": [{"scope": {"name": "drilldown"}, "spans": list(all_spans)}]}

    def span(span_id, parent_id, name, kind):
        return {
            "traceId": trace_id,
            "spanId": span_id,
            "parentSpanId": parent_id,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
        }

    root, child = secrets.token_hex(8), secrets.token_hex(8)
    return {
        "resourceSpans": [
            spans("chat-web", span(root, "", "POST /chat", 3)),
            spans("llm-gateway", span(child, root, "POST /v1/chat/completions", 2)),
        ]
    }


def fresh(client, _place):
    """Sends a slow trace and looks until SQL has its spans: seconds from the decision and from the send."""
    trace_id = secrets.token_hex(16)
    sent = time.time()
    client.send(slow_trace(trace_id))
    look = f"SELECT count(*) AS n FROM spans WHERE trace_id = '{trace_id}'"
    while int(client.rows(look)[0][0]) < 2:
        if time.time() - sent > FRESH_LIMIT_S:
            raise RuntimeError(f"trace {trace_id} is not there after {FRESH_LIMIT_S} s")
        time.sleep(LOOK_S)
    seen = time.time()
    decided = f"SELECT CAST(decided_time AS BIGINT) AS micros FROM traces WHERE trace_id = '{trace_id}'"
    decided = int(client.rows(decided)[0][0]) / 1e6
    return seen - decided, seen - sent


def time_questions(clients, ask, ids, since):
    """Times of the questions that both sides are asked; `ask` takes a client and a statement."""
    trace = lambda client, trace_id: ask(client, statement("trace", trace_id=trace_id)) and None
    slow = lambda client, _place: ask(client, slow_sql(since)) and None
    unbound = lambda client, _place: ask(client, slow_sql(since, False)) and None
    timed(clients, trace, ids[:WARM_UP])
    took = {"trace": timed(clients, trace, ids[WARM_UP:])}
    timed(clients, slow, range(WARM_UP))
    took["slow"] = timed(clients, slow, range(RUNS))
    timed(clients, unbound, range(CLIENTS))
    took["unbound"] = timed(clients, unbound, range(RUNS))
    # What it takes where nobody else asks.
    took["trace_alone"] = timed(clients[:1], trace, ids[WARM_UP:])
    took["slow_alone"] = timed(clients[:1], slow, range(RUNS))
    return took


def answers_of(rows, ids, since):
    """What the sides must agree in; `rows` answers a statement."""
    return {
        "traces": {trace_id: len(rows(statement("trace", trace_id=trace_id))) for trace_id in ids[:20]},
        "slow": [tuple(row[:2]) + (row[10],) for row in rows(slow_sql(since))],
    }


def ask_ours(server, ids, since):
    clients = [Client(server) for _ in range(CLIENTS)]
    begun = time.perf_counter()
    clients[0].fetch(statement("trace", trace_id=ids[0]))
    first = time.perf_counter() - begun
    took = time_questions(clients, Client.fetch, ids, since)
    both = timed(clients, fresh, range(RUNS))
    took["visible"] = [kept for kept, _sent in both]
    took["sent"] = [sent for _kept, sent in both]
    answers = answers_of(clients[0].rows, ids, since)
    return took, answers, first


def duckdb_over(lake, tables):
    """A session with the tables as views over their files, and what it takes to ask."""
    import duckdb

    session = duckdb.connect()
    session.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
    for table, told in tables.items():
        if told["files"]:
            files = ", ".join(f"'{lake}/{file}'" for file in told["files"])
            session.execute(f"CREATE VIEW {table} AS FROM read_parquet([{files}], hive_partitioning = false)")
    # The same join has another name there.
    view = (ROOT / "storage/views/gpu_evidence.sql").read_text().replace("LEFT ANTI JOIN", "ANTI JOIN")
    session.execute(f"CREATE VIEW gpu_evidence AS {view}")
    return session


def ask_duckdb(session, ids, since):
    clients = [session.cursor() for _ in range(CLIENTS)]
    ask = lambda client, sql: client.execute(sql).fetchall()
    took = time_questions(clients, ask, ids, since)
    answers = answers_of(lambda sql: ask(session, sql), ids, since)
    return took, answers


def machine():
    return f"{processor()}, {os.cpu_count()} cores, {memory_gib():.0f} GiB, load {os.getloadavg()[0]:.1f}"


QUESTIONS = (
    ("trace", "one trace by id", "p99 <= 20 ms"),
    ("slow", "top 20 slow of the last hour with evidence", "<= 100 ms"),
    ("unbound", "the same without a bound on the evidence", ""),
    ("trace_alone", "one trace by id, one client", ""),
    ("slow_alone", "top 20 slow of the last hour with evidence, one client", ""),
    ("visible", "kept to visible", "<= 1 s"),
    ("sent", "sent to visible (1 s of it is grace)", ""),
)


def print_results(ours, theirs):
    milliseconds = lambda seconds: f"{seconds * 1000:,.1f}"
    lines = [("question", "bar", "median ms", "p99 ms", "duckdb median", "duckdb p99", "ratio of medians")]
    for name, text, bar in QUESTIONS:
        line = [text, bar, milliseconds(quantile(ours[name], 0.5)), milliseconds(quantile(ours[name], 0.99))]
        if name in theirs:
            line += [milliseconds(quantile(theirs[name], 0.5)), milliseconds(quantile(theirs[name], 0.99))]
            line += [f"{quantile(theirs[name], 0.5) / quantile(ours[name], 0.5):,.1f} x"]
        lines.append(tuple(line + [""] * (7 - len(line))))
    widths = [max(len(line[column]) for line in lines) for column in range(7)]
    for line in lines:
        cells = (cell.ljust(width) if column < 2 else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(line, widths)))
        print("  ".join(cells))


def results(told, ours, theirs, first, peak_mib):
    """What was measured, for other scripts; times in milliseconds."""
    quantiles = lambda side: {
        name: {f"p{percent}": 1000 * quantile(times, percent / 100) for percent in (50, 99)}
        for name, times in side.items()
    }
    sizes = {
        name: {"rows": table["rows"], "bytes": table["bytes"], "files": len(table["files"])}
        for name, table in told["tables"].items()
    }
    return {
        "machine": machine(),
        "tables": sizes,
        "clients": CLIENTS,
        "runs": RUNS,
        "ours_ms": quantiles(ours),
        "duckdb_ms": quantiles(theirs),
        "first_trace_ms": 1000 * first,
        "peak_mib": peak_mib,
    }


def made(generator, lake, n_spans):
    """What is in the lake; made if it is not there."""
    told = lake.with_suffix(".json")
    if not told.exists():
        begun = time.monotonic()
        done = subprocess.run([generator, lake, str(n_spans)], stdout=subprocess.PIPE, check=True, text=True)
        told.write_text(done.stdout.splitlines()[-1])
        print(f"made in {time.monotonic() - begun:,.0f} s")
    return json.loads(told.read_text())


def main(generator, whyslow, n_spans=10_000_000, folder=None):
    kept = folder is not None
    folder = pathlib.Path(folder or tempfile.mkdtemp()).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    lake = folder / "lake"
    print(machine())
    told = made(generator, lake, int(n_spans))
    tables = told["tables"]
    for name, table in tables.items():
        if table["rows"]:
            per_row = table["bytes"] / table["rows"]
            print(f"{name:<15} {table['rows']:>12,} rows  {len(table['files']):>4} files  {per_row:>7.1f} B/row")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime((told["end_unix_nano"] - HOUR_NS) // SECOND_NS))
    session = duckdb_over(lake, tables)
    ids = session.execute(f"SELECT trace_id FROM traces ORDER BY hash(trace_id) LIMIT {RUNS + WARM_UP}").fetchall()
    ids = [trace_id for (trace_id,) in ids]
    random.Random(1).shuffle(ids)
    server = Server(whyslow, lake, folder)
    try:
        ours, our_answers, first = ask_ours(server, ids, since)
        peak_mib = server.peak_mib()
    finally:
        server.stop()
    theirs, their_answers = ask_duckdb(session, ids, since)
    assert our_answers["traces"] == their_answers["traces"], (our_answers["traces"], their_answers["traces"])
    assert our_answers["slow"] == their_answers["slow"], (our_answers["slow"][:5], their_answers["slow"][:5])
    print_results(ours, theirs)
    spans = tables["spans"]
    print(f"{CLIENTS} clients, {RUNS} runs of each after {WARM_UP}; the first trace by id of the process took {first * 1000:,.0f} ms")
    print(f"spans: {spans['bytes'] / spans['rows']:.1f} B/span (bar: 35); peak of the service {peak_mib:,} MiB; load now {os.getloadavg()[0]:.1f}")
    print("the answers of both sides are equal")
    if kept:
        (folder / "results.json").write_text(json.dumps(results(told, ours, theirs, first, peak_mib)) + "\n")
    else:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
