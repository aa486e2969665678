"""The checks in their order. `run` starts this with everything installed; see README.md.

Usage: main.py WHYSLOW TOOLS WORK, with the server's binary, the folder of the Go programs, and an
empty folder for logs and data.
"""

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import collector
import doors
import peers
import readers
import sdk
import telemetrygen
from checks import Checks, expect
from processes import Folder
from seaweed import BUCKET, Seaweed
from whyslow import Whyslow

# Commits per table, enough for a checkpoint in the Delta log.
N_COMMITS = 21


def main(whyslow, tools, work):
    """Returns the exit status."""
    folder = Folder(Path(work))
    checks = Checks(folder.path / "failures.txt")
    checks.group("local folder", check_local, checks, folder, whyslow, Path(tools))
    checks.group("tokens", check_tokens, checks, folder, whyslow)
    checks.group("S3 server", check_s3, checks, folder, whyslow, Path(tools))
    print(f"{checks.n_passed} passed, {checks.n_failed} failed")
    return 1 if checks.n_failed else 0


def check_local(checks, folder, whyslow, tools):
    """Every peer sends to one server, which stores in a folder; then the readers read it."""
    tables = folder.path / "local" / "tables"
    generator = telemetrygen.Telemetrygen(folder, tools / "telemetrygen")
    sent = Counter()
    with Whyslow(folder, "local", whyslow, str(tables)) as server:
        for exporter in sdk.EXPORTERS:
            checks.run(f"Python SDK, {exporter}", sdk.check, server, sent, exporter)
        for protocol in ("grpc", "http"):
            name = f"telemetrygen-{protocol}"
            check = telemetrygen.check
            checks.run(f"telemetrygen, {protocol}", check, generator, server, sent, name, protocol)
        for exporter in collector.EXPORTERS:
            arguments = (folder, tools / "collector", generator, server, sent, exporter)
            checks.run(f"Collector, {exporter}", collector.check, *arguments)
        check_doors(checks, server)
        check_tables(checks, [(server, sent)], readers.Tables(str(tables)))


def check_doors(checks, server):
    """Clients of the two other protocols ask the server while it runs."""
    checks.run("psql", doors.check_psql, server)
    checks.run("psycopg", doors.check_psycopg, server)
    checks.run("JDBC", doors.check_jdbc, server)
    checks.run("ADBC Flight SQL", doors.check_adbc, server)
    checks.run("pyarrow.flight", doors.check_pyarrow, server)
    checks.run("API of Jaeger", peers.check_jaeger, server)
    checks.run("API of Tempo", peers.check_tempo, server)


def check_tokens(checks, folder, whyslow):
    """The same clients, where a token is asked for."""
    tables = str(folder.path / "tokens" / "tables")
    with Whyslow(folder, "tokens", whyslow, tables, change=doors.ask_for_tokens) as server:
        checks.run("tokens, psycopg and ADBC", doors.check_tokens, server)
        checks.run("tokens: orderly end", server.stop)


def check_s3(checks, folder, whyslow, tools):
    """Two servers store in the same tables of a bucket; then the readers read it."""
    tables = f"s3://{BUCKET}/tables"
    generator = telemetrygen.Telemetrygen(folder, tools / "telemetrygen")
    senders = []
    with ExitStack() as stack:
        store = stack.enter_context(Seaweed(folder, Path(sys.executable).parent / "weed"))
        for name in ("s3-first", "s3-second"):
            server = Whyslow(folder, name, whyslow, tables, store.environment())
            senders.append((stack.enter_context(server), Counter()))
        first, second = senders
        checks.run("S3, Python SDK, http", sdk.check, *first, "http")
        arguments = (generator, *second, "s3-telemetrygen", "grpc")
        checks.run("S3, telemetrygen, grpc", telemetrygen.check, *arguments)
        reader = readers.Tables(tables, store.environment(), store.file_system())
        check_tables(checks, senders, reader)


def check_tables(checks, senders, tables):
    """Nothing was lost or doubled on the way, and everybody reads the same rows."""
    where = senders[0][0].name.split("-")[0]
    checks.run(f"{where}: many commits", sdk.check_trickle, senders, N_COMMITS)
    for server, sent in senders:
        checks.run(f"{server.name}: conservation", server.check_conservation, sent)
    expected = readers.agreed_facts([server for server, _ in senders])
    n_spans = sum(sent["spans"] for _, sent in senders)
    checks.run(f"{where}: SQL counts", check_count, expected, n_spans)
    for server, _ in senders:
        checks.run(f"{server.name}: orderly end", server.stop)
    checks.run(f"{where}: maintain", senders[0][0].maintain)
    checks.run(f"{where}: deltalake reads", tables.check_deltalake, expected)
    checks.run(f"{where}: duckdb reads", tables.check_duckdb, expected)


def check_count(expected, n_spans):
    """What SQL counts is what was sent."""
    expect("rows of spans", expected["spans"]["n_rows"], n_spans)
    return ", ".join(f"{table} {facts['n_rows']} rows" for table, facts in expected.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
