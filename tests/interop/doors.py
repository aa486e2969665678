"""Clients of Postgres and of Arrow Flight SQL, each against the running server.

What each of them reads is compared with what SQL over HTTP says. `psql` is a program of the system
(package `postgresql-client`); where it is not there, its check says so and the others go on.
"""

import datetime
import shutil
import subprocess
import threading
from pathlib import Path

import adbc_driver_flightsql.dbapi
import psycopg
import pyarrow.flight

from checks import Wrong, expect

COUNT = "SELECT count(*) AS n FROM spans"

# What must be refused at every door; the list of the attacks is in `crates/query/src/tests/attacks.rs`.
REFUSED = (
    "DELETE FROM spans",
    "COPY spans TO '/tmp/evil.parquet'",
    "SET datafusion.execution.batch_size = 1",
    "SELECT pg_read_file('/etc/passwd')",
)


def check_psql(server):
    """`\\d`, `\\d requests` and a statement, as a person types them."""
    if shutil.which("psql") is None:
        return "not there: install the package `postgresql-client`"
    host, port = server.postgres.rsplit(":", 1)

    def psql(*arguments):
        command = ["psql", "-X", "-A", "-t", "-h", host, "-p", port, "-U", "me", "-d", "whyslow"]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout, done.stderr

    out, error = psql("-c", COUNT)
    expect("psql counts", (out.strip(), error), (str(_count(server)), ""))
    relations, error = psql("-c", r"\d")
    expect("errors of \\d", error, "")
    for name in ("requests|table", "slow_requests|view"):
        if name not in relations:
            raise Wrong(f"\\d does not show {name}: {relations}")
    columns, error = psql("-c", r"\d requests")
    expect("errors of \\d requests", error, "")
    if "trace_id|text" not in columns:
        raise Wrong(f"\\d requests does not show trace_id: {columns}")
    _, error = psql("-c", REFUSED[0])
    if "refused" not in error:
        raise Wrong(f"{REFUSED[0]} is not refused: {error}")
    version = subprocess.run(["psql", "--version"], capture_output=True, text=True, check=True)
    return f"{version.stdout.strip()}, {out.strip()} spans, {len(relations.splitlines())} relations"


def check_psycopg(server):
    """Parameters, types, cursors that read in parts, errors, and a cancelled statement."""
    host, port = server.postgres.rsplit(":", 1)
    where = {"host": host, "port": port, "user": "me", "dbname": "whyslow"}
    with psycopg.connect(**where, autocommit=True) as connection:
        n_spans = connection.execute(COUNT).fetchone()[0]
        expect("psycopg counts", n_spans, _count(server))
        row = connection.execute(
            "SELECT trace_id, start_time, duration_ns, attributes FROM spans LIMIT 1"
        ).fetchone()
        kinds = [type(value) for value in row]
        expect("types", kinds, [str, datetime.datetime, int, dict])
        statement = "SELECT count(*) FROM spans WHERE trace_id = %s AND start_time <= %s"
        for binary in (False, True):
            values = (row[0], row[1])
            found = connection.execute(statement, values, binary=binary).fetchone()[0]
            if not 0 < found <= n_spans:
                raise Wrong(f"{found} spans with binary={binary}")
        for refused in REFUSED:
            try:
                connection.execute(refused)
            except psycopg.Error as error:
                last = error.sqlstate
            else:
                raise Wrong(f"{refused} is not refused")
        expect("code of the last", last, "42000")
        endless = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(v) WHERE v % 7 = 8"
        cursor = connection.cursor()
        timer = threading.Timer(1.0, connection.cancel)
        timer.start()
        try:
            cursor.execute(endless)
        except psycopg.errors.QueryCanceled:
            pass
        else:
            raise Wrong("a cancelled statement was answered")
        finally:
            timer.join()
        expect("after it", connection.execute("SELECT 1").fetchone(), (1,))
    with psycopg.connect(**where) as connection:
        # In a transaction, whose statements say BEGIN and COMMIT.
        expect("in a transaction", connection.execute(COUNT).fetchone()[0], n_spans)
    return f"psycopg {psycopg.__version__}, {n_spans} spans, {len(REFUSED)} refused, 1 cancelled"


# Where Debian's package `libpostgresql-jdbc-java` puts the driver.
JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")


def check_jdbc(server):
    """The driver that DBeaver, Metabase and Spark use: metadata, parameters, portals, errors, a time limit."""
    if shutil.which("javac") is None or not JDBC_DRIVER.exists():
        return "not there: install the packages `default-jdk-headless` and `libpostgresql-jdbc-java`"
    program = Path(__file__).parent / "jdbc" / "Check.java"
    url = f"jdbc:postgresql://{server.postgres}/whyslow"
    command = ["java", "-cp", JDBC_DRIVER, program, url, "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Wrong(" | ".join(done.stderr.splitlines()[:4]))
    return done.stdout.strip()


def check_adbc(server):
    """A statement, parameters, names of tables, and what is refused."""
    uri = f"grpc://{server.flight_sql}"
    with adbc_driver_flightsql.dbapi.connect(uri, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute(COUNT)
            n_spans = cursor.fetch_arrow_table()["n"][0].as_py()
            expect("ADBC counts", n_spans, _count(server))
            cursor.execute("SELECT trace_id FROM spans LIMIT 1")
            trace_id = cursor.fetchone()[0]
            cursor.execute("SELECT count(*) AS n FROM spans WHERE trace_id = $1", (trace_id,))
            n_found = cursor.fetchone()[0]
            if not 0 < n_found <= n_spans:
                raise Wrong(f"{n_found} spans of {trace_id}")
            cursor.execute("SELECT * FROM spans")
            table = cursor.fetch_arrow_table()
            expect("rows of all columns", table.num_rows, n_spans)
            for refused in REFUSED:
                try:
                    cursor.execute(refused)
                except Exception as error:  # Which class it is depends on the driver.
                    if not str(error):
                        raise Wrong(f"{refused} is refused without a reason") from None
                else:
                    raise Wrong(f"{refused} is not refused")
        objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        tables = objects[0]["catalog_db_schemas"][0]["db_schema_tables"]
        names = sorted(each["table_name"] for each in tables)
        if "requests" not in names or "slow_requests" not in names:
            raise Wrong(f"the tables are {names}")
        info = connection.adbc_get_info()
    driver = f"{info['driver_name']} {info['driver_version']}"
    size = f"{table.num_rows} rows of {table.num_columns} columns, {len(names)} tables"
    return f"{info['vendor_name']} by {driver}: {size}"


def check_pyarrow(server):
    """The plain Flight client, with the command of a statement written out."""
    client = pyarrow.flight.connect(f"grpc://{server.flight_sql}")
    command = _any("CommandStatementQuery", _field(1, COUNT.encode()))
    info = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(command))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    expect("pyarrow.flight counts", table["n"][0].as_py(), _count(server))
    expect("its schema", info.schema, table.schema)
    return f"pyarrow {pyarrow.__version__}, {table['n'][0].as_py()} spans"


TOKEN = "a-token-of-a-reader"


def ask_for_tokens(pipeline):
    """Changes a pipeline so that both doors ask for a token."""
    extensions = pipeline["extensions"]
    extensions["bearertokenauth"] = {"tokens": ["another", TOKEN]}
    pipeline["service"]["extensions"].append("bearertokenauth")
    for door in ("postgres", "flight_sql"):
        listener = extensions["query"][door]
        extensions["query"][door] = {**listener, "auth": {"authenticator": "bearertokenauth"}}


def check_tokens(server):
    """A token is the password of either protocol, and anything else is refused."""
    host, port = server.postgres.rsplit(":", 1)

    def by_postgres(password):
        where = {"host": host, "port": port, "user": "me", "dbname": "whyslow"}
        with psycopg.connect(**where, password=password) as connection:
            return connection.execute("SELECT 42").fetchone()[0]

    def by_flight_sql(password):
        options = {"username": "me", "password": password}
        uri = f"grpc://{server.flight_sql}"
        connect = adbc_driver_flightsql.dbapi.connect
        with connect(uri, db_kwargs=options, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 42")
                return cursor.fetchone()[0]

    for door in (by_postgres, by_flight_sql):
        expect(door.__name__, door(TOKEN), 42)
        try:
            door("wrong")
        except Exception:  # Each driver has its own.
            continue
        raise Wrong(f"{door.__name__} lets anybody in")
    return "psycopg by SCRAM, ADBC by the handshake; a wrong token is refused by both"


def _count(server):
    return server.sql(COUNT)[0]["n"]


def _field(number, value):
    """A field of bytes in protobuf's form."""
    length, digits = len(value), bytearray()
    while length > 127:
        digits.append(length & 127 | 128)
        length >>= 7
    digits.append(length)
    return bytes([number << 3 | 2]) + bytes(digits) + value


def _any(name, value):
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}"
    return _field(1, url.encode()) + _field(2, value)
