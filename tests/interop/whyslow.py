"""The server under test: a running `whyslow serve`, and what the checks ask of it."""

import json
import re
import urllib.error
import urllib.request

from checks import Wrong, eventually, expect
from processes import Process

# Short, so that the checks do not wait: from a trace's first span to its decision, and from there
# to the commit.
DECISION_WAIT = "1s"
COMMIT_INTERVAL = "500ms"

# What can become of a span beside pending, in `sampler_spans_total` on `/metrics`.
STATES = ("sampled", "not_sampled", "dropped", "late", "duplicate")

# The section `tail_sampling` unless a check has its own.
EVERYTHING = {
    "decision_wait": DECISION_WAIT,
    "policies": [{"name": "all", "type": "always_sample"}],
}


def metrics(address):
    """`/metrics` as a dict from name and labels, such as `name{a="b"}`, to value."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        page = response.read().decode()
    samples = [line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#"]
    return {name: float(value) for name, value in samples}


def await_decisions(read_metrics, seconds):
    """Waits until no trace is pending and what was kept is committed, or sent."""

    def probe():
        now = read_metrics()
        return (
            now["sampler_traces_pending"] == 0
            and now["gateway_release_backlog_spans"] == 0
            and now["gateway_release_sequence"] == now["gateway_committed_sequence"]
        )

    eventually("traces are pending or rows not committed", probe, seconds)


class Whyslow:
    """Keeps every trace by default, and listens on free ports of the loopback interface."""

    def __init__(
        self, folder, name, binary, tables, environment=None, sampling=EVERYTHING, change=None
    ):
        """`change`, if given, changes the pipeline before it is written."""
        self.name = name
        self._folder = folder
        self._environment = environment
        self._n_starts = 0
        home = folder.below(name)
        config = home / "pipeline.yaml"
        self._binary, self._config = binary, config
        pipeline = _pipeline(home, tables, sampling)
        if change:
            change(pipeline)
        # JSON is YAML too, and needs no quoting rules.
        config.write_text(json.dumps(pipeline, indent=2), encoding="utf-8")
        self._command = [binary, "serve", "-c", config]
        self.start()

    def start(self):
        """Starts it in its folder, where an earlier process may have ended."""
        self._n_starts += 1
        log = f"{self.name}-whyslow" + (f"-{self._n_starts}" if self._n_starts > 1 else "")
        self._process = Process(self._folder, log, self._command, self._environment)
        ready = self._process.await_line(r"\bready otlp_grpc=.*").group()
        address = dict(re.findall(r'(\w+)="([^"]*)"', ready))
        self.grpc = address["otlp_grpc"]
        self.http = address["otlp_http"]
        self._query = address["query"]
        self.postgres = address["postgres"]
        self.flight_sql = address["flight_sql"]

    def sql(self, statement):
        """The rows of an answer, each a dict from column to value."""
        request = urllib.request.Request(
            f"http://{self._query}/v1/sql",
            data=json.dumps({"sql": statement}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise Wrong(f"{statement}: {error.code} {error.read().decode()}") from None
        if answer["truncated"] or "error" in answer:
            raise Wrong(f"{statement}: broke off after {answer['row_count']} rows")
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]]

    def get(self, path, headers=None, raw=False):
        """What a GET answers: JSON, or bytes where they are asked for."""
        request = urllib.request.Request(f"http://{self._query}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            raise Wrong(f"{path}: {error.code} {error.read().decode()}") from None
        return body if raw or headers else json.loads(body)

    def await_rows(self, table, where, n_expected):
        """Waits until a table has this many rows; more are a failure as well."""
        statement = f"SELECT count(*) AS n_rows FROM {table} WHERE {where}"
        seen = 0

        def probe():
            nonlocal seen
            seen = self.sql(statement)[0]["n_rows"]
            return seen >= n_expected

        eventually(lambda: f"{table}: expected {n_expected} rows, observed {seen}", probe)
        expect(f"rows of {table}", seen, n_expected)

    def metrics(self):
        """`/metrics` of this process."""
        return metrics(self._query)

    def await_decisions(self, seconds=60):
        """Waits until no trace is pending and every row is committed."""
        await_decisions(self.metrics, seconds)

    def check_conservation(self, sent):
        """Everything that was sent was taken, and everything taken is accounted for."""
        self.await_decisions()
        metrics = self.metrics()
        refusals = {
            name: value
            for name, value in metrics.items()
            if re.search(r"_(rejected|refused)_total|reason=\"unreadable\"", name)
            or (name.startswith("gateway_exports_total") and 'code="OK"' not in name)
        }
        expect("refused and rejected", {k: v for k, v in refusals.items() if v}, {})
        for what, n_items in sent.items():
            expect(f"{what} received", metrics[f"gateway_{what}_received_total"], n_items)
        balance(metrics)
        expect("spans in the sampler", _sum(metrics, "spans", ("received",)), sent["spans"])
        n_exports = sum(v for k, v in metrics.items() if k.startswith("gateway_exports_total"))
        n_late = _sum(metrics, "spans", ("late",))
        numbers = ", ".join(f"{n} {what}" for what, n in sent.items())
        return f"{numbers} in {n_exports:.0f} exports, none refused, {n_late:.0f} spans late"

    def stop(self):
        """Ends it as a supervisor does; it commits what it has."""
        status = self._process.stop()
        expect("exit status", status, 0)
        expect("warnings in its log", self._process.lines(r"^\S+ +(WARN|ERROR)\b"), [])
        return "exit status 0, no warning in its log"

    def readiness(self):
        """Status and text of `/readyz`."""
        try:
            with urllib.request.urlopen(f"http://{self._query}/readyz", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def log_lines(self, pattern):
        """Lines of the running process's log in which the pattern is found."""
        return self._process.lines(pattern)

    def memory_bytes(self):
        """What it has in memory now."""
        return self._process.memory_bytes()

    def kill(self):
        """`kill -9`."""
        self._process.kill()

    def maintain(self):
        """Merges the small files of the tables, as a person would."""
        command = [self._binary, "maintain", "-c", self._config]
        with Process(self._folder, f"{self.name}-maintain", command, self._environment) as process:
            expect("exit status of maintain", process.await_end(60), 0)
            merged = process.lines(r"^spans: merged \d+ files")
        expect("files of spans were merged", bool(merged), True)
        return ", ".join(merged)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()


def balance(metrics):
    """received + recovered = sampled + not_sampled + dropped + late + pending; returns the left side."""
    totals = {}
    for unit in ("traces", "spans", "span_bytes"):
        came = _sum(metrics, unit, ("received", "recovered"))
        became = _sum(metrics, unit, STATES) + metrics[f"sampler_{unit}_pending"]
        expect(f"{unit}: received and accounted for", became, came)
        totals[unit] = int(came)
    return totals


def span_states(metrics):
    """What became of spans."""
    states = {state: int(_sum(metrics, "spans", (state,))) for state in STATES}
    return {**states, "pending": int(metrics["sampler_spans_pending"])}


def _sum(metrics, unit, states):
    """What became of `unit`, over all decisions of these states."""
    pattern = rf'sampler_{unit}_total\{{state="({"|".join(states)})"'
    return sum(value for name, value in metrics.items() if re.match(pattern, name))


def _pipeline(home, tables, sampling):
    listener = {"endpoint": "127.0.0.1:0"}
    return {
        "receivers": {"otlp": {"protocols": {"grpc": listener, "http": listener}}},
        "processors": {"tail_sampling": dict(sampling)},
        "exporters": {
            "lake": {
                "path": tables,
                "commit_interval": COMMIT_INTERVAL,
                # `maintain` is run by hand, after the last commit.
                "maintenance": {"interval": "0s"},
            }
        },
        "extensions": {
            "query": {**listener, "postgres": listener, "flight_sql": listener},
            "write_ahead_log": {"directory": str(home / "log")},
        },
        "service": {
            "extensions": ["query", "write_ahead_log"],
            "pipelines": {
                "traces": {
                    "receivers": ["otlp"],
                    "processors": ["tail_sampling"],
                    "exporters": ["lake"],
                }
            },
        },
    }
