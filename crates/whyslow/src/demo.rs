//! `whyslow demo`: the whole route in one command, on captured traffic.
//!
//! Starts the service with the embedded default pipeline in a temporary folder on free ports, sends
//! the capture over gRPC as a collector would, the scrapes of its GPUs and engine with it, waits until every
//! trace is decided and committed, and asks SQL what came in, what was kept and why, which requests were slow, where one
//! of them spent its time, and what its GPU did meanwhile.

mod scrapes;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::TryStreamExt as _;
use loadgen::capture::Capture;
use loadgen::client::{Client, Endpoint, Protocol};
use otlp::TraceId;
use otlp::export::Signal;

use crate::config::slo::{Measure, Objective, Position, Promise};
use crate::config::{self, Config, LakeExporter, Slo};
use crate::serve::Service;
use crate::show::progress::Progress;
use crate::show::table::{CELL_CHARS_MAX, Table};
use crate::show::timeline;
use crate::show::{self, text};
use crate::slow;

/// Where the capture lies in a checkout.
const CAPTURE: &str = "tests/data/real-chain";

/// Longest wait for the answer. The replay itself takes a second or two.
const PATIENCE: Duration = Duration::from_secs(120);

/// Width of the timeline in characters.
const WIDTH: usize = 110;

/// Run everything once on captured vLLM traffic and show what it answers.
///
/// Needs nothing but the checkout: free ports on 127.0.0.1, a temporary folder, no network.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  whyslow demo\n  whyslow demo --stay")]
pub(crate) struct Args {
    /// Keep the service running and the folder in place until ctrl-c.
    #[arg(long)]
    stay: bool,
    /// Folder of captured export requests [default: the one of the checkout].
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let captured = capture_folder(args.capture)?;
    let capture = Capture::open(&[&captured])?;
    let folder = tempfile::Builder::new().prefix("whyslow-demo-").tempdir()?;
    let config = configure(folder.path())?;
    let tables = config.lake.as_ref().map(|lake| lake.path.clone());
    let tables = tables.context("the default pipeline stores")?;
    say("Starting Whyslow with its default pipeline on free ports ...")?;
    let service = Box::pin(Service::start(config)).await?;
    let (Some(grpc), Some(query)) = (service.gateway.grpc_addr, service.query_addr) else {
        bail!("the default pipeline lacks a listener");
    };
    say(&format!(
        "  OTLP/gRPC {grpc}, SQL http://{query}/v1/sql, tables {tables}"
    ))?;

    let shown = show_all((&capture, &captured), &service, &grpc.to_string()).await;
    if shown.is_ok() {
        let names = tables::all().map(|spec| spec.name).join(", ");
        say(&format!(
            "\nMore: whyslow sql --server http://{query} \"SELECT * FROM slow_requests\"\n\
             Data: {tables} (Delta tables: {names})"
        ))?;
        if args.stay {
            say("Running until ctrl-c.")?;
            tokio::signal::ctrl_c().await.context("listen for ctrl-c")?;
        } else {
            say("Stopped; the folder is removed. `whyslow demo --stay` keeps both.")?;
        }
    }
    service.stop().await?;
    shown
}

async fn show_all(
    (capture, folder): (&Capture, &Path),
    service: &Service,
    grpc: &str,
) -> anyhow::Result<()> {
    let begin = now();
    let sent = send(capture, folder, grpc).await?;
    say(&format!(
        "  sent {} with {} and {} of its GPUs and engine in {}",
        text::counted(capture.len() as u64, "export request"),
        text::counted(sent.n_spans, "span"),
        text::counted(sent.n_scrapes, "scrape"),
        text::duration(begin.elapsed())
    ))?;
    say("Waiting until every trace is decided and in the tables ...")?;
    wait_until_stored(service, begin).await?;
    say(&format!(
        "  done {} after the first byte\n",
        text::duration(begin.elapsed())
    ))?;

    say("What came in, what was kept and why:")?;
    say(&table(service, DECISIONS).await?)?;
    say("The failed and the slowest requests:")?;
    let batches = ask(
        service,
        &slow::statement(Duration::from_secs(3600), None, 10),
    )
    .await?;
    let (lines, _) = slow::table(&batches)?;
    say(&lines.to_string())?;
    let Some(trace_id) = first_text(&ask(service, SLOWEST_KEPT).await?) else {
        bail!("no trace was kept");
    };
    let trace_id = TraceId::parse_hex(&trace_id)?;
    say(&format!(
        "Where the slowest kept trace {trace_id} spent its time:"
    ))?;
    let spans = timeline::spans_of_batches(&ask(service, &timeline::statement(trace_id)).await?)?;
    say(&timeline::render(&spans, WIDTH))?;
    if sent.n_scrapes == 0 {
        return Ok(());
    }
    say("What the GPU of each kept request did meanwhile, hottest first:")?;
    say(&table(service, EVIDENCE).await?)
}

/// Evidence of the kept requests: first those in whose time the device was throttled.
const EVIDENCE: &str = "SELECT trace_id, gpu_uuid, attribution, sample_count AS samples, \
     round(thermal_throttle_share, 2) AS thermal_share, round(sm_clock_mhz_avg) AS clock_mhz, \
     round(baseline_sm_clock_mhz) AS before_mhz, temp_c_max AS temp_c, missing_link \
     FROM gpu_evidence ORDER BY thermal_throttle_share DESC NULLS LAST, start_time LIMIT 8";

/// What was sent.
struct Sent {
    n_spans: u64,
    n_scrapes: u64,
}

const DECISIONS: &str = "SELECT decision, policy, count(*) AS traces, \
     sum(span_count) AS spans, sum(request_count) AS engine_requests, \
     round(max(duration_ns) / 1e9, 3) AS longest_s \
     FROM traces GROUP BY decision, policy ORDER BY decision DESC, traces DESC";

const SLOWEST_KEPT: &str = "SELECT trace_id FROM traces \
     WHERE decision = 'sampled' AND request_count > 0 ORDER BY duration_ns DESC LIMIT 1";

fn engine(service: &Service) -> anyhow::Result<&Arc<query::Engine>> {
    service.engine().context("the default pipeline stores")
}

/// The built-in default with free ports, its own folder, and waits of seconds: all spans are there
/// at once, nobody has to wait for a batch processor.
fn configure(folder: &Path) -> anyhow::Result<Config> {
    let mut config = config::load(None)?.config;
    let path = |name: &str| folder.join(name).display().to_string();
    config.log.directory = path("log");
    config.lake = config.lake.map(|lake| LakeExporter {
        path: path("tables"),
        commit_interval: Duration::from_secs(1),
        ..lake
    });
    config.sampler.decision_wait = Duration::from_secs(2);
    config.sampler.trigger = None;
    config.correlate.max_lateness = Duration::from_secs(2);
    config.slo = Some(promises());
    let free = "127.0.0.1:0";
    if let Some(grpc) = &mut config.gateway.otlp.protocols.grpc {
        grpc.endpoint = free.to_owned();
    }
    config.gateway.otlp.protocols.http = None;
    if let Some(query) = &mut config.query {
        query.endpoint = free.parse()?;
        query.postgres.endpoint = free.parse()?;
        query.flight_sql.endpoint = free.parse()?;
    }
    Ok(config)
}

/// Promises that the burst breaks, for the web page to draw and `/metrics` to count.
fn promises() -> Slo {
    let promise = |measure, threshold: Option<Duration>, target| Promise {
        measure,
        threshold,
        target,
    };
    let objective = Objective {
        name: "all".to_owned(),
        model: None,
        input_band: Vec::new(),
        output_band: Vec::new(),
        promises: vec![
            promise(
                Measure::Ttft(Position::Engine),
                Some(Duration::from_secs(1)),
                0.95,
            ),
            promise(Measure::E2e, Some(Duration::from_secs(5)), 0.95),
            promise(Measure::Errors, None, 0.999),
        ],
    };
    Slo {
        objectives: vec![objective],
        ..Slo::default()
    }
}

fn capture_folder(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return Ok(folder);
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(CAPTURE);
    let found = [PathBuf::from(CAPTURE), checkout]
        .into_iter()
        .find(|folder| folder.is_dir());
    found.with_context(|| {
        format!("`{CAPTURE}` is not here; run this in a checkout, or name a folder with --capture")
    })
}

/// Sends the capture as it was, its times moved to the present, one request at a time.
async fn send(capture: &Capture, folder: &Path, grpc: &str) -> anyhow::Result<Sent> {
    let endpoint = Endpoint::parse(grpc, Protocol::Grpc)?;
    let config = loadgen::client::Config {
        concurrency: NonZeroUsize::MIN,
        ..loadgen::client::Config::new(endpoint, Protocol::Grpc)
    };
    let client = Arc::new(Client::new(&config)?);
    let requests = capture.requests().collect::<Result<Vec<_>, _>>()?;
    let mut latest = 0;
    for request in &requests {
        if let Some((_, end)) = otlp::retime::time_range(&request.body)? {
            latest = latest.max(end);
        }
    }
    let now_ns = system_now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?;
    let shift = i128::try_from(now_ns.as_nanos())? - i128::from(latest);
    // First, as a scrape is there before the trace that it explains is decided.
    let n_scrapes = scrapes::send(&client, folder, shift).await?;
    let mut progress = Progress::new(requests.len() as u64, "requests");
    let mut n_spans = 0;
    for mut request in requests {
        otlp::retime::shift(&mut request.body, Signal::Traces, shift)?;
        let exported = client
            .export(Signal::Traces, Bytes::from(request.body))
            .await?;
        if exported.n_rejected > 0 {
            progress.line(&format!("{} spans were rejected", exported.n_rejected));
        }
        n_spans += request.n_spans;
        progress.advance("");
    }
    progress.finish();
    Ok(Sent { n_spans, n_scrapes })
}

/// Until nothing is undecided, every trace has its row, and every kept request its evidence.
async fn wait_until_stored(service: &Service, begin: Instant) -> anyhow::Result<()> {
    loop {
        let seen = service.gateway.metrics.conservation();
        let stored = u64::try_from(count(service, "SELECT count(*) FROM traces").await?)?;
        let decided = seen.received.n_traces;
        let kept = "SELECT count(*) FROM requests WHERE decision = 'sampled' AND position = 'engine' AND span_id NOT IN \
             (SELECT span_id FROM evidence)";
        let is_all_evident = count(service, kept).await? == 0;
        if is_all_evident && seen.pending.n_spans == 0 && stored >= decided && decided > 0 {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            bail!(
                "after {PATIENCE:?} {stored} of {decided} traces are stored; this machine is very busy or a stage is stuck"
            );
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn ask(service: &Service, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
    Ok(engine(service)?.sql(sql).await?.try_collect().await?)
}

async fn table(service: &Service, sql: &str) -> anyhow::Result<String> {
    let answer = engine(service)?.answer(sql, None).await?;
    let schema = Arc::clone(answer.schema());
    let batches: Vec<RecordBatch> = answer.try_collect().await?;
    Ok(Table::of_batches(&schema, &batches, CELL_CHARS_MAX)?.to_string())
}

async fn count(service: &Service, sql: &str) -> anyhow::Result<i64> {
    use arrow::array::AsArray as _;
    use arrow::datatypes::Int64Type;
    let batches = ask(service, sql).await?;
    let batch = batches.first().context("a count without a row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
}

fn first_text(batches: &[RecordBatch]) -> Option<String> {
    use arrow::array::AsArray as _;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0)?;
    Some(batch.column(0).as_string_opt::<i32>()?.value(0).to_owned())
}

fn say(line: &str) -> anyhow::Result<()> {
    show::print(&format!("{line}\n"))?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the demo says how long it took")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the capture is moved to the present"
)]
fn system_now() -> SystemTime {
    SystemTime::now()
}
