//! What is stored about a request and its surroundings.

use correlate::{
    Cohort, DeviceFact, EngineFact, EngineSample, FactRows, FactSource, Facts, Neighbour, SpanFact,
    normalise_request_id,
};
use otlp::{SpanId, TraceId};

use super::batches;
use super::rows::{Row, Rows, Source};
use super::{Ask, Error, Result, quoted};

const SECOND: i64 = 1_000_000_000;

/// Requests around it that tell what is usual.
const COHORT_NANOS: i64 = 3_600 * SECOND;

/// What is usual is asked for whole minutes: requests of one minute ask the same.
const MINUTE: i64 = 60 * SECOND;

/// Prompts that can still have been computed when the request came.
const NEIGHBOURS_NANOS: i64 = 600 * SECOND;

/// Samples around its time: one before and one after at the usual intervals.
const SAMPLES_NANOS: i64 = 35 * SECOND;

/// Prompts below it are not looked at as neighbours: they fit into a step or two.
const NEIGHBOUR_TOKENS_MIN: i64 = 4_096;

/// The request that is explained, and what is known.
#[derive(Debug)]
pub struct Subject {
    /// Its trace.
    pub trace_id: TraceId,
    /// What its row in `requests` says of it, if it has one.
    pub request: Option<Described>,
    /// Requests in the trace.
    pub n_requests: usize,
    /// What is known.
    pub facts: Facts,
    pub(super) statements: Statements,
}

/// A request as people name it.
#[derive(Debug)]
pub struct Described {
    /// Its id, as the engine says it.
    pub request_id: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The pod of its engine.
    pub pod: Option<String>,
    /// How it ended.
    pub outcome: Option<String>,
    /// Was its engine span found by the request id, in another trace?
    pub stitched: bool,
}

/// The statements that show the rows behind facts; `None` where nothing was asked.
#[derive(Debug, Default)]
pub(super) struct Statements {
    /// Traces whose spans the facts are about, as literals.
    traces: String,
    request: Option<String>,
    pub(super) cohort: Option<String>,
    neighbours: Option<String>,
    engine_samples: Option<String>,
    devices: Option<String>,
    batches: Option<String>,
}

impl Statements {
    fn about(trace_ids: &[TraceId]) -> Self {
        let traces: Vec<String> = trace_ids.iter().map(|id| format!("'{id}'")).collect();
        Self {
            traces: traces.join(", "),
            ..Self::default()
        }
    }

    /// The statement for a fact.
    pub(super) fn of(&self, source: &FactSource) -> Option<String> {
        match source.rows {
            FactRows::Spans => {
                let traces = &self.traces;
                let one = source.key.as_deref().map_or(String::new(), |span_id| {
                    format!(" AND span_id = {}", quoted(span_id))
                });
                Some(format!(
                    "SELECT * FROM spans WHERE trace_id IN ({traces}){one} ORDER BY start_time_unix_nano"
                ))
            }
            FactRows::Request => self.request.clone(),
            FactRows::Neighbours => self.neighbours.clone(),
            FactRows::EngineSamples => self.engine_samples.clone(),
            FactRows::Devices => self.devices.clone(),
            FactRows::Batches => self.batches.clone(),
        }
    }
}

/// Asks for everything about the requests of a trace, the longest first, at most `requests_max`; about the one of `span`
/// alone where it is given. A trace without requests is one subject.
///
/// # Errors
///
/// [`Error`] says which.
pub async fn load<A: Ask>(
    source: &Source<A>,
    trace_id: TraceId,
    span: Option<SpanId>,
    requests_max: usize,
) -> Result<Vec<Subject>> {
    let spans = spans_of(source, trace_id).await?;
    let in_trace = Rows::ask(source, &requests(&format!("trace_id = '{trace_id}'"))).await?;
    let n_requests = in_trace.n_rows();
    let mut stitched = None;
    if n_requests == 0 {
        stitched = stitch(source, &spans).await?;
    }
    let rows = stitched.as_ref().unwrap_or(&in_trace);
    let wanted = |row: &Row<'_>| span.is_none_or(|span| row.span_id("span_id").ok() == Some(span));
    let mut subjects = Vec::new();
    for row in rows.iter().filter(wanted).take(requests_max) {
        let (mut spans, mut trace_ids) = (spans.clone(), vec![trace_id]);
        if stitched.is_some() {
            let other = of_trace(&row)?;
            spans.extend(spans_of(source, other).await?);
            trace_ids.push(other);
        }
        let statements = Statements::about(&trace_ids);
        let is_only = rows.n_rows() == 1;
        let (facts, statements) = facts_of(source, &row, is_only, spans, statements).await?;
        subjects.push(Subject {
            trace_id,
            request: Some(Described {
                request_id: row.text("request_id"),
                model: row.text("model"),
                pod: row.text("k8s_pod_name"),
                outcome: row.text("outcome"),
                stitched: stitched.is_some(),
            }),
            n_requests,
            facts,
            statements,
        });
    }
    if let (Some(span_id), true) = (span, subjects.is_empty()) {
        return Err(Error::NoRequest { trace_id, span_id });
    }
    if subjects.is_empty() {
        if spans.is_empty() {
            return Err(Error::Nothing { trace_id });
        }
        let facts = Facts {
            spans,
            ..Facts::default()
        };
        subjects.push(Subject {
            trace_id,
            request: None,
            n_requests,
            facts,
            statements: Statements::about(&[trace_id]),
        });
    }
    Ok(subjects)
}

fn of_trace(row: &Row<'_>) -> Result<TraceId> {
    let column = "trace_id";
    let text = row.text(column).ok_or(Error::Id {
        column,
        source: None,
    })?;
    TraceId::parse_hex(&text).map_err(|invalid| Error::Id {
        column,
        source: Some(invalid),
    })
}

/// What is known about the request `row`.
async fn facts_of<A: Ask>(
    source: &Source<A>,
    row: &Row<'_>,
    is_only: bool,
    spans: Vec<SpanFact>,
    mut statements: Statements,
) -> Result<(Facts, Statements)> {
    let (trace_id, span_id) = (of_trace(row)?, row.span_id("span_id")?);
    statements.request = Some(format!(
        "SELECT * FROM requests WHERE trace_id = '{trace_id}' AND span_id = '{span_id}'"
    ));
    let (engine_samples, running_max, sql) = engine_samples(source, row).await?;
    statements.engine_samples = sql;
    let (cohort, sql) = cohort(source, row).await?;
    statements.cohort = Some(sql);
    let (devices, sql) = devices(source, trace_id, span_id).await?;
    statements.devices = Some(sql);
    let (neighbours, sql) = neighbours(source, row).await?;
    statements.neighbours = sql;
    let (batches, sql) = batches::load(source, row, is_only).await?;
    statements.batches = Some(sql);
    let facts = Facts {
        engine: Some(engine(row)?),
        cohort,
        engine_samples,
        running_max,
        devices,
        neighbours,
        batches,
        spans,
    };
    Ok((facts, statements))
}

async fn spans_of<A: Ask>(source: &Source<A>, trace_id: TraceId) -> Result<Vec<SpanFact>> {
    let sql = format!(
        "SELECT span_id, parent_span_id, service_name, name, kind, openinference_span_kind, gen_ai_response_id, \
         start_time_unix_nano, end_time_unix_nano FROM spans WHERE trace_id = '{trace_id}' ORDER BY start_time_unix_nano"
    );
    let rows = Rows::ask(source, &sql).await?;
    rows.iter()
        .map(|row| {
            let start_unix_nano = row.int("start_time_unix_nano").unwrap_or(0);
            Ok(SpanFact {
                span_id: row.span_id("span_id")?,
                parent_span_id: row.span_id("parent_span_id").ok(),
                service: row.text("service_name").unwrap_or_default(),
                name: row.text("name").unwrap_or_default(),
                is_client: row.text("kind").as_deref() == Some("CLIENT"),
                is_retrieval: row.text("openinference_span_kind").as_deref() == Some("RETRIEVER"),
                response_id: row
                    .text("gen_ai_response_id")
                    .map(|id| normalise_request_id(&id).to_owned()),
                start_unix_nano,
                end_unix_nano: row.int("end_time_unix_nano").unwrap_or(start_unix_nano),
            })
        })
        .collect()
}

fn requests(condition: &str) -> String {
    format!(
        "SELECT trace_id, span_id, request_id, request_id_normalised, model, service_name, service_instance_id, \
         k8s_namespace_name, k8s_pod_name, k8s_pod_uid, outcome, input_band, output_band, start_time_unix_nano, duration_ns, \
         queue_s, prefill_s, decode_s, input_tokens, cached_tokens, output_tokens \
         FROM requests WHERE {condition} AND position = 'engine' AND NOT wrapper ORDER BY e2e_s DESC NULLS LAST, span_id"
    )
}

/// Requests of other traces that carry a request id which a span of this one got as the answer's.
async fn stitch<A: Ask>(source: &Source<A>, spans: &[SpanFact]) -> Result<Option<Rows>> {
    let ids: Vec<String> = spans
        .iter()
        .filter_map(|span| span.response_id.as_deref())
        .map(quoted)
        .collect();
    if ids.is_empty() {
        return Ok(None);
    }
    let start = spans
        .iter()
        .map(|span| span.start_unix_nano)
        .min()
        .unwrap_or(0);
    let end = spans
        .iter()
        .map(|span| span.end_unix_nano)
        .max()
        .unwrap_or(0);
    // An id that is used again belongs to the request of that time.
    let condition = format!(
        "request_id_normalised IN ({}) AND start_time_unix_nano BETWEEN {} AND {}",
        ids.join(", "),
        start - 60 * SECOND,
        end + 60 * SECOND
    );
    Ok(Some(Rows::ask(source, &requests(&condition)).await?))
}

fn engine(row: &Row<'_>) -> Result<EngineFact> {
    let start_unix_nano = row.int("start_time_unix_nano").unwrap_or(0);
    Ok(EngineFact {
        span_id: Some(row.span_id("span_id")?),
        request_id: row.text("request_id_normalised"),
        start_unix_nano,
        end_unix_nano: start_unix_nano + row.int("duration_ns").unwrap_or(0),
        queue_s: row.float("queue_s"),
        prefill_s: row.float("prefill_s"),
        decode_s: row.float("decode_s"),
        input_tokens: row.int("input_tokens"),
        cached_tokens: row.int("cached_tokens"),
        output_tokens: row.int("output_tokens"),
    })
}

/// From an hour before the minute to an hour after it.
fn around(unix_nano: i64) -> String {
    let minute = unix_nano - unix_nano.rem_euclid(MINUTE);
    format!(
        "BETWEEN {} AND {}",
        minute.saturating_sub(COHORT_NANOS),
        minute.saturating_add(COHORT_NANOS)
    )
}

/// Medians of requests like it, from an hour before to an hour after; those of the ways to and from the engine are of
/// kept traces only, because of others no span is stored.
async fn cohort<A: Ask>(source: &Source<A>, row: &Row<'_>) -> Result<(Cohort, String)> {
    let around = around(row.int("start_time_unix_nano").unwrap_or(0));
    let same = |column: &str| match row.text(column) {
        Some(text) => format!("{column} = {}", quoted(&text)),
        None => format!("{column} IS NULL"),
    };
    let engine = format!(
        "SELECT count(*) AS n, median(queue_s) AS queue_s, median(prefill_s) AS prefill_s, median(tpot_s) AS tpot_s, \
         median(input_tokens) AS input_tokens, median(cached_tokens / nullif(input_tokens, 0)::DOUBLE) AS cached_share \
         FROM requests WHERE start_time_unix_nano {around} AND position = 'engine' AND NOT wrapper AND {} AND {} AND {} AND {}",
        same("model"),
        same("service_name"),
        same("input_band"),
        same("output_band")
    );
    let ways = usual_ways(&around);
    let mut cohort = Cohort::default();
    if let Some(row) = Rows::ask_once(source, &engine).await?.iter().next() {
        cohort.n_requests = row
            .int("n")
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(0);
        cohort.queue_s = row.float("queue_s");
        cohort.prefill_s = row.float("prefill_s");
        cohort.tpot_s = row.float("tpot_s");
        cohort.input_tokens = row.float("input_tokens");
        cohort.cached_share = row.float("cached_share");
    }
    if let Some(row) = Rows::ask_once(source, &ways).await?.iter().next() {
        cohort.before_s = row.float("before_s");
        cohort.delivery_s = row.float("delivery_s");
    }
    Ok((cohort, engine))
}

/// Medians of the ways to and from the engine, of kept requests whose trace has both ends. Clocks of hosts are set right as
/// for the request itself: an engine's interval that does not lie within that of whoever waited for it is moved to the
/// middle of what is possible. A call that streams may end before the engine does; what made that call does not.
fn usual_ways(around: &str) -> String {
    format!(
        "WITH near AS (SELECT trace_id, span_id, parent_span_id, start_time_unix_nano AS began, end_time_unix_nano AS ended \
         FROM spans WHERE start_time_unix_nano {around}), \
         ways AS (SELECT engine.began - root.began AS before, root.ended - engine.ended AS after, \
         engine.began - caller.began AS earliest, \
         engine.ended - greatest(caller.ended, coalesce(holder.ended, caller.ended)) AS latest \
         FROM near AS engine JOIN near AS root ON root.trace_id = engine.trace_id AND root.parent_span_id IS NULL \
         JOIN near AS caller ON caller.trace_id = engine.trace_id AND caller.span_id = engine.parent_span_id \
         LEFT JOIN near AS holder ON holder.trace_id = caller.trace_id AND holder.span_id = caller.parent_span_id \
         WHERE engine.span_id IN (SELECT span_id FROM requests WHERE start_time_unix_nano {around} AND position = 'engine' AND decision = 'sampled')), \
         clocks AS (SELECT before, after, CASE WHEN (earliest < 0 OR latest > 0) AND latest <= earliest \
         THEN (earliest + latest) / 2 ELSE 0 END AS ahead FROM ways) \
         SELECT median(before - ahead) / 1e9 AS before_s, median(after + ahead) / 1e9 AS delivery_s FROM clocks"
    )
}

/// Samples of the request's engine, by pod or instance (where samples name neither, of the only engine that there is),
/// and the most requests that it ran within an hour of it.
async fn engine_samples<A: Ask>(
    source: &Source<A>,
    row: &Row<'_>,
) -> Result<(Vec<EngineSample>, Option<f64>, Option<String>)> {
    let start = row.int("start_time_unix_nano").unwrap_or(0);
    let end = start + row.int("duration_ns").unwrap_or(0);
    let engines = format!(
        "SELECT k8s_pod_name, k8s_pod_uid, service_instance_id, engine_index, max(requests_running) AS running_max \
         FROM engine_samples WHERE time_unix_nano {} \
         GROUP BY k8s_pod_name, k8s_pod_uid, service_instance_id, engine_index",
        around(start)
    );
    let engines = Rows::ask_once(source, &engines).await?;
    let names = ["k8s_pod_uid", "k8s_pod_name", "service_instance_id"];
    let is_named = |engine: &Row<'_>| {
        names
            .iter()
            .any(|name| row.text(name).is_some() && engine.text(name) == row.text(name))
    };
    let named = engines.iter().find(is_named);
    let only = engines
        .iter()
        .next()
        .filter(|only| engines.iter().count() == 1 && only.text("k8s_pod_name").is_none());
    let Some(engine) = named.or(only) else {
        return Ok((Vec::new(), None, None));
    };
    let same = [names.as_slice(), &["engine_index"]]
        .concat()
        .into_iter()
        .map(|name| match engine.text(name) {
            Some(text) => format!("{name} = {}", quoted(&text)),
            None => format!("{name} IS NULL"),
        });
    let sql = format!(
        "SELECT time_unix_nano, requests_running, requests_waiting, kv_cache_usage, preemptions_delta FROM engine_samples \
         WHERE time_unix_nano BETWEEN {} AND {} AND {} ORDER BY time_unix_nano",
        start - SAMPLES_NANOS,
        end + SAMPLES_NANOS,
        same.collect::<Vec<_>>().join(" AND ")
    );
    let rows = Rows::ask(source, &sql).await?;
    let samples = rows.iter().map(|sample| EngineSample {
        at_unix_nano: sample.int("time_unix_nano").unwrap_or(0),
        running: sample.float("requests_running"),
        waiting: sample.float("requests_waiting"),
        kv_cache_usage: sample.float("kv_cache_usage"),
        preemptions: sample.float("preemptions_delta"),
    });
    Ok((samples.collect(), engine.float("running_max"), Some(sql)))
}

async fn devices<A: Ask>(
    source: &Source<A>,
    trace_id: TraceId,
    span_id: SpanId,
) -> Result<(Vec<DeviceFact>, String)> {
    let sql = format!(
        "SELECT gpu_uuid, mig_instance, missing_link, attribution, sm_clock_mhz_avg, baseline_sm_clock_mhz, \
         thermal_throttle_share, array_to_string(throttle_reasons, ',') AS throttle_reasons, \
         array_to_string(xids, ',') AS xids, array_to_string(xids_before, ',') AS xids_before, ecc_dbe, nvlink_errors, temp_c_max \
         FROM gpu_evidence WHERE trace_id = '{trace_id}' AND span_id = '{span_id}' ORDER BY gpu_uuid, start_time_unix_nano"
    );
    let rows = Rows::ask(source, &sql).await?;
    let devices = rows.iter().map(|row| DeviceFact {
        gpu_uuid: row
            .text("gpu_uuid")
            .map(|uuid| match row.text("mig_instance") {
                Some(instance) => format!("{uuid} instance {instance}"),
                None => uuid,
            }),
        missing_link: row.text("missing_link"),
        attribution: row.text("attribution").unwrap_or_default(),
        sm_clock_mhz: row.float("sm_clock_mhz_avg"),
        baseline_sm_clock_mhz: row.float("baseline_sm_clock_mhz"),
        thermal_throttle_share: row.float("thermal_throttle_share"),
        throttle_reasons: row.texts("throttle_reasons"),
        xids: row.texts("xids"),
        xids_before: row.texts("xids_before"),
        ecc_dbe: row.float("ecc_dbe"),
        nvlink_errors: row.float("nvlink_errors"),
        temp_c: row.float("temp_c_max"),
    });
    Ok((devices.collect(), sql))
}

async fn neighbours<A: Ask>(
    source: &Source<A>,
    row: &Row<'_>,
) -> Result<(Vec<Neighbour>, Option<String>)> {
    let start = row.int("start_time_unix_nano").unwrap_or(0);
    let end = start + row.int("duration_ns").unwrap_or(0);
    let same = ["k8s_pod_uid", "k8s_pod_name", "service_instance_id"]
        .into_iter()
        .find_map(|column| Some(format!("{column} = {}", quoted(&row.text(column)?))));
    let Some(same) = same else {
        return Ok((Vec::new(), None));
    };
    let span_id = row.span_id("span_id")?;
    let sql = format!(
        "SELECT request_id_normalised, start_time_unix_nano, queue_s, prefill_s, input_tokens FROM requests \
         WHERE {same} AND position = 'engine' AND span_id <> '{span_id}' AND input_tokens >= {NEIGHBOUR_TOKENS_MIN} \
         AND start_time_unix_nano BETWEEN {} AND {end}",
        start - NEIGHBOURS_NANOS
    );
    let rows = Rows::ask(source, &sql).await?;
    let found = rows.iter().filter_map(|row| {
        let after = |seconds: f64| (seconds * SECOND as f64) as i64;
        let prefill_from_unix_nano =
            row.int("start_time_unix_nano")? + after(row.float("queue_s")?);
        let prefill_to_unix_nano = prefill_from_unix_nano + after(row.float("prefill_s")?);
        let is_in_time = prefill_from_unix_nano < end && prefill_to_unix_nano > start;
        is_in_time.then_some(Neighbour {
            request_id: row.text("request_id_normalised").unwrap_or_default(),
            prefill_from_unix_nano,
            prefill_to_unix_nano,
            input_tokens: row.int("input_tokens")?,
        })
    });
    Ok((found.collect(), Some(sql)))
}
