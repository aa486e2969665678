"""Runs each side in a process of its own on one core, compares the answers, and prints the ratios."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from machine import memory_gib, processor

HERE = pathlib.Path(__file__).parent
SUMS = (
    "SELECT count(*), sum(sample_count), sum(power_w_avg), sum(util_pct_avg),"
    " sum(sm_clock_mhz_min), sum(temp_c_max) FROM"
)
KEYS = ("rows", "samples", "power_w_avg", "util_pct_avg", "sm_clock_mhz_min", "temp_c_max")
VALUES = (
    "util_pct_avg",
    "power_w_avg",
    "power_w_max",
    "sm_clock_mhz_avg",
    "sm_clock_mhz_min",
    "temp_c_max",
    "thermal_throttle_share",
)
# The plain form meets all samples of a GPU with each request: a part of the requests tells its rate.
PLAIN_SHARE = 100


def statement(form):
    # What is division of whole numbers elsewhere is `//` here.
    return (HERE / f"{form}.sql").read_text().replace(" / ", " // ")


def duckdb_side(folder, form, n_requests):
    """One process: reads into tables, then the join."""
    import duckdb

    begun = time.process_time()
    session = duckdb.connect()
    session.execute("SET threads = 1; SET preserve_insertion_order = false")
    for name, file in (("samples", "gpu_samples"), ("requests", "requests"), ("placements", "placements")):
        session.execute(f"CREATE TABLE {name} AS FROM '{folder}/{file}.parquet'")
    read_s = time.process_time() - begun
    begun = time.process_time()
    wanted = f"request_id < {n_requests}"
    sums = session.execute(f"{SUMS} ({statement(form).replace('{wanted}', wanted)})").fetchone()
    said = {
        "side": f"duckdb {form}",
        "requests": n_requests,
        "read_s": read_s,
        "join_s": time.process_time() - begun,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    said.update(zip(KEYS, map(float, sums)))
    print(json.dumps(said), flush=True)
    part = statement(form).replace("{wanted}", f"{wanted} AND request_id % 100 = 0")
    session.execute(f"COPY ({part}) TO '{folder}/part-duckdb-{form}.parquet'")


def one(command):
    """The line of JSON of a side, run on the first core that this process may use."""
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare_sums(ours, other):
    for key in KEYS:
        expected, found = other[key], ours[key]
        assert abs(found - expected) <= 1e-9 * abs(expected), (other["side"], key, found, expected)


def compare_rows(folder, side):
    """Row by row, of every hundredth request; how many rows."""
    import duckdb

    differs = " OR ".join(f"abs(o.{name} - s.{name}) > 1e-9 * greatest(1, abs(s.{name}))" for name in VALUES)
    n_rows, n_other, n_lost, n_differing = duckdb.execute(
        f"""
        WITH ours AS (SELECT * FROM '{folder}/part-correlate.parquet' WHERE method = 'within'),
             side AS (SELECT * FROM '{folder}/part-{side}.parquet')
        SELECT (SELECT count(*) FROM ours WHERE request_id IN (SELECT request_id FROM side)),
               (SELECT count(*) FROM side),
               (SELECT count(*) FROM side ANTI JOIN ours USING (request_id, gpu_uuid)),
               (SELECT count(*) FROM side s JOIN ours o USING (request_id, gpu_uuid)
                WHERE o.sample_count <> s.sample_count OR {differs})
        """
    ).fetchone()
    assert n_rows == n_other and n_lost == 0 and n_differing == 0, (side, n_rows, n_other, n_lost, n_differing)
    return n_rows


def machine():
    return f"{processor()}, {os.cpu_count()} cores of which one is used, {memory_gib():.0f} GiB, load {os.getloadavg()[0]:.1f}"


def print_table(outcomes):
    ours = outcomes[0]
    rate = ours["requests"] / ours["join_s"]
    head = ("side", "requests", "evidence rows", "samples met", "read s", "join s", "rows/s", "peak MiB", "ours is")
    lines = [head]
    for out in outcomes:
        ratio = rate / (out["requests"] / out["join_s"])
        lines.append((
            out["side"],
            f"{out['requests']:,}",
            f"{out['rows']:,.0f}",
            f"{out['samples']:,.0f}",
            f"{out['read_s']:.1f}",
            f"{out['join_s']:.1f}",
            f"{out['rows'] / out['join_s']:,.0f}",
            f"{out['peak_mib']:,}",
            "" if out is ours else f"{ratio:,.1f} x",
        ))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) if not column else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(line, widths))))


def main(bench, n_requests=1_000_000, n_gpus=1_000, folder=None):
    n_requests, n_gpus = int(n_requests), int(n_gpus)
    kept = folder is not None
    folder = pathlib.Path(folder or tempfile.mkdtemp())
    print(machine())
    subprocess.run([bench, "generate", folder, str(n_requests), str(n_gpus)], check=True)
    n_samples = n_gpus * 3_600
    print(f"{n_requests:,} requests, {n_gpus:,} GPUs in pods of 8, {n_samples:,} samples in an hour")
    n_plain = max(n_requests // PLAIN_SHARE, 1)
    own = [sys.executable, __file__, "duckdb", folder]
    outcomes = [
        one([bench, "correlate", folder]),
        one([bench, "datafusion", folder, "buckets", n_requests]),
        one([*own, "buckets", n_requests]),
        one([bench, "datafusion", folder, "plain", n_plain]),
        one([*own, "plain", n_plain]),
    ]
    for other in outcomes[1:3]:
        compare_sums(outcomes[0], other)
    sides = ("datafusion-buckets", "duckdb-buckets", "datafusion-plain", "duckdb-plain")
    n_compared = [compare_rows(folder, side) for side in sides]
    print_table(outcomes)
    print(f"sums over all rows are equal; rows compared one by one: {', '.join(f'{n:,}' for n in n_compared)}")
    if not kept:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


if __name__ == "__main__":
    if sys.argv[1] == "duckdb":
        duckdb_side(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(*sys.argv[1:])
