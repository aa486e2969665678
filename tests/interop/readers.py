"""duckdb and the `deltalake` package open the tables that the server wrote.

`deltalake` reads the Delta log and the files with its own reader. duckdb reads the same snapshot:
its Delta extension would have to be downloaded when it runs, so `deltalake` gives it the list of
the snapshot's files, and duckdb reads those with its own Parquet reader. That is the whole
snapshot, because these tables have no deletion vectors, which is checked.
"""

import deltalake
import duckdb
import pyarrow

from checks import eventually, expect

# Facts of each table that every one of the three engines must agree on. The aggregates are such
# that no engine can answer them from the statistics in the log alone.
FACTS = {
    "spans": """
        SELECT count(*) AS n_rows, count(DISTINCT trace_id) AS n_traces,
            count(DISTINCT date) AS n_dates, sum(duration_ns) AS duration_ns,
            min(start_time_unix_nano) AS first, max(end_time_unix_nano) AS last,
            min(name) AS least_name, max(name) AS greatest_name,
            count(attributes['v.text']) AS n_texts, max(attributes['v.text']) AS text,
            sum(array_length(events)) AS n_events, sum(array_length(links)) AS n_links
        FROM spans""",
    "traces": """
        SELECT count(*) AS n_rows, count(DISTINCT trace_id) AS n_traces,
            count(DISTINCT date) AS n_dates, sum(duration_ns) AS duration_ns,
            sum(span_count) AS n_spans, min(root_name) AS least_name, max(policy) AS policy
        FROM traces""",
    "requests": """
        SELECT count(*) AS n_rows, count(DISTINCT trace_id) AS n_traces,
            count(DISTINCT date) AS n_dates, sum(output_tokens) AS output_tokens,
            sum(e2e_s) AS e2e_s, max(request_id) AS request_id
        FROM requests""",
}


def agreed_facts(servers):
    """What the servers' SQL says of the tables that they share."""

    def probe():
        facts = [
            {table: server.sql(statement)[0] for table, statement in FACTS.items()}
            for server in servers
        ]
        return facts[0] if all(each == facts[0] for each in facts) else None

    # A server looks for the commits of others every few seconds.
    return eventually("servers on the same tables count different rows", probe)


class Tables:
    """The tables below a folder or a prefix, as other programs open them."""

    def __init__(self, root, options=None, file_system=None):
        self._root = root
        self._options = options
        self._file_system = file_system

    def check_deltalake(self, expected):
        """The `deltalake` package sees the server's rows."""
        numbers = []
        for table, statement in FACTS.items():
            delta = self._open(table)
            answer = deltalake.QueryBuilder().register(table, delta).execute(statement).read_all()
            (observed,) = pyarrow.table(answer).to_pylist()
            expect(f"facts of {table}", observed, expected[table])
            n_files = len(delta.file_uris())
            if table == "spans":
                interval = int(delta.metadata().configuration["delta.checkpointInterval"])
                expect("the log of spans has a checkpoint", delta.version() >= interval, True)
            numbers.append(
                f"{table} {observed['n_rows']} rows in {n_files} files at version {delta.version()}"
            )
        return ", ".join(numbers)

    def check_duckdb(self, expected):
        """duckdb sees the server's rows."""
        numbers = []
        with duckdb.connect() as connection:
            # Nothing is to be downloaded, and nothing that happens to be there used.
            connection.execute("SET autoinstall_known_extensions = false")
            connection.execute("SET autoload_known_extensions = false")
            if self._file_system:
                connection.register_filesystem(self._file_system)
            for table, statement in FACTS.items():
                delta = self._open(table)
                features = delta.protocol().reader_features or []
                expect(f"deletion vectors in {table}", "deletionVectors" in features, False)
                files = connection.read_parquet(delta.file_uris(), hive_partitioning=True)
                files.create_view(table)
                answer = connection.execute(statement)
                names = [column[0] for column in answer.description]
                (row,) = answer.fetchall()
                observed = dict(zip(names, row, strict=True))
                expect(f"facts of {table}", observed, expected[table])
                numbers.append(f"{table} {observed['n_rows']} rows")
        return ", ".join(numbers)

    def _open(self, table):
        return deltalake.DeltaTable(f"{self._root}/{table}", storage_options=self._options)
