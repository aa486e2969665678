//! `kill -9` at any moment, under load: while the server starts, replays, receives, decides and commits.
//!
//! One data folder lives through all kills. Each export is sent once; one that was not answered may or may
//! not be stored. `WHYSLOW_KILLS` says how many kills (default 6), `SEED` when they come.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use loadgen::client::{Client, Config, Endpoint, Protocol};
use loadgen::traffic;
use otlp::export::{Limits, Signal};
use otlp::span::SpanSummary;

use crate::harness::{SLOW_OR_FAILED, Server, Site};

/// Requests in flight at once.
const N_SENDERS: usize = 4;

/// Requests of the traffic of one life of the server: more than it is given time for.
const N_REQUESTS: u32 = 300;

/// So many lives of the server follow each other, of which the first is let catch up before the load: a life
/// may be too short for a commit, and the log would only grow.
const LIVES_PER_CATCH_UP: u64 = 5;

/// A kill comes at most this long after the load began, or after the process did.
const LIFE_MAX: Duration = Duration::from_millis(900);

/// Trace id and span id.
type Key = (String, String);

/// What was sent in the lives so far.
#[derive(Debug, Default)]
struct Sent {
    /// Every span, and whether its export was acknowledged.
    spans: BTreeMap<Key, bool>,
    requests: BTreeSet<Key>,
    calls: BTreeSet<Key>,
    n_exports: usize,
    n_acknowledged: usize,
}

impl Sent {
    fn add(&mut self, body: &[u8], is_acknowledged: bool) {
        self.n_exports += 1;
        self.n_acknowledged += usize::from(is_acknowledged);
        for at in otlp::export::spans(body, &Limits::default()) {
            let at = at.unwrap();
            let summary = SpanSummary::read(at.span).unwrap();
            let key = (summary.trace_id.to_string(), summary.span_id.to_string());
            if correlate::is_request_span(&summary, at.scope, at.span) {
                self.requests.insert(key.clone());
            } else if correlate::is_call_span(&summary, at.span) {
                self.calls.insert(key.clone());
            }
            let before = self.spans.insert(key, is_acknowledged);
            assert!(before.is_none(), "the traffic repeats a span");
        }
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn life(&mut self) -> Duration {
        Duration::from_micros(self.below(LIFE_MAX.as_micros().try_into().unwrap()))
    }
}

/// Sends as fast as it is answered until `life` is over, then kills the server in the middle of it.
fn load_and_kill(server: Server, seed: u64, life: Duration, sent: &mut Sent) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let config = traffic::Config {
        seed,
        n_requests: N_REQUESTS,
        failed_share: 0.2,
        slow_share: 0.2,
        ..traffic::Config::default()
    };
    let exports = traffic::generate(&config).exports;
    let queue = Arc::new(Mutex::new(exports.into_iter()));
    let answered = runtime.block_on(async {
        let senders: Vec<_> = (0..N_SENDERS)
            .map(|_| tokio::spawn(send(server.grpc.clone(), Arc::clone(&queue))))
            .collect();
        tokio::time::sleep(life).await;
        server.kill();
        let mut answered = Vec::new();
        for sender in senders {
            answered.extend(sender.await.unwrap());
        }
        answered
    });
    for (body, is_acknowledged) in answered {
        sent.add(&body, is_acknowledged);
    }
}

/// Sends until an export is not answered.
async fn send(
    endpoint: String,
    queue: Arc<Mutex<std::vec::IntoIter<traffic::Export>>>,
) -> Vec<(Bytes, bool)> {
    let endpoint = Endpoint::parse(&endpoint, Protocol::Grpc).unwrap();
    let mut config = Config::new(endpoint, Protocol::Grpc);
    // No export is sent twice.
    config.retry.attempts_max = NonZeroU32::MIN;
    let client = Client::new(&config).unwrap();
    let mut answered = Vec::new();
    loop {
        let next = queue.lock().unwrap().next();
        let Some(export) = next else { return answered };
        let body = Bytes::from(export.body);
        let is_acknowledged = client.export(Signal::Traces, body.clone()).await.is_ok();
        answered.push((body, is_acknowledged));
        if !is_acknowledged {
            return answered;
        }
    }
}

/// Rows as text.
fn rows(rows: Vec<Vec<serde_json::Value>>) -> Vec<Vec<String>> {
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    rows.into_iter()
        .map(|row| row.into_iter().map(text).collect())
        .collect()
}

const DECISIONS: &str =
    "SELECT trace_id, decision, policy, trigger, span_count, decided_time FROM traces";

/// Of each trace: were its spans kept, once for each time that it was decided?
type KeptOf = BTreeMap<String, Vec<bool>>;

/// Everything that is to hold after the last kill; gives the numbers.
fn check_stored(site: &Site, sent: &Sent, seen: &BTreeSet<Vec<String>>) -> String {
    let kept_of = check_decisions(site, seen);
    let n_kept = check_spans(site, sent, &kept_of);
    let n_requests = check_requests(site, sent);
    let n_again = kept_of.values().filter(|kept| kept.len() > 1).count();
    format!(
        "{} exports sent, {} acknowledged; {} traces decided, {n_again} of them again after their decision \
         was forgotten; {n_kept} acknowledged spans of kept traces stored once, {n_requests} requests; \
         {} decisions seen before a kill are the same after it; 0 lost, 0 doubled, 0 invented",
        sent.n_exports,
        sent.n_acknowledged,
        kept_of.len(),
        seen.len(),
    )
}

fn check_decisions(site: &Site, seen: &BTreeSet<Vec<String>>) -> KeptOf {
    let decisions = rows(site.stored(DECISIONS));
    let decided: BTreeSet<&Vec<String>> = decisions.iter().collect();
    assert_eq!(decided.len(), decisions.len(), "a decision is stored twice");
    for row in seen {
        assert!(decided.contains(row), "seen, and has changed: {row:?}");
    }
    let mut kept_of = KeptOf::new();
    for row in &decisions {
        let kept = kept_of.entry(row[0].clone()).or_default();
        kept.push(row[1] == "sampled");
    }
    kept_of
}

fn check_spans(site: &Site, sent: &Sent, kept_of: &KeptOf) -> usize {
    let stored = keys(site, "spans");
    for key in &stored {
        assert!(sent.spans.contains_key(key), "{key:?} was never sent");
        assert!(kept_of[&key.0].contains(&true), "{key:?} is not to be kept");
    }
    let mut n_kept = 0;
    for (key, is_acknowledged) in &sent.spans {
        if !is_acknowledged {
            continue;
        }
        let kept = kept_of.get(&key.0);
        let kept = kept.unwrap_or_else(|| panic!("{key:?} was acknowledged, its trace has no row"));
        if kept.iter().all(|is_kept| *is_kept) {
            n_kept += 1;
            assert!(stored.contains(key), "{key:?} was acknowledged and is lost");
        }
    }
    n_kept
}

fn check_requests(site: &Site, sent: &Sent) -> usize {
    let stored = keys(site, "requests WHERE position = 'engine'");
    for key in keys(site, "requests WHERE position <> 'engine'") {
        assert!(sent.calls.contains(&key), "{key:?} was never sent");
    }
    for key in &stored {
        assert!(sent.requests.contains(key), "{key:?} was never sent");
    }
    for key in sent.requests.iter().filter(|key| sent.spans[*key]) {
        assert!(stored.contains(key), "{key:?} was acknowledged and is lost");
    }
    stored.len()
}

/// The rows of a table, none of them twice.
fn keys(site: &Site, table: &str) -> BTreeSet<Key> {
    let rows = rows(site.stored(&format!("SELECT trace_id, span_id FROM {table}")));
    let keys: BTreeSet<Key> = rows
        .iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(keys.len(), rows.len(), "a row of `{table}` is stored twice");
    keys
}

#[test]
fn kills_at_any_moment_under_load_lose_double_and_invent_nothing() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let (n_kills, seed) = (number("WHYSLOW_KILLS", 6), number("SEED", 1));
    let mut random = Random(seed);
    let site = Site::new(SLOW_OR_FAILED).deciding_after("300ms");
    let (mut sent, mut seen) = (Sent::default(), BTreeSet::new());
    let mut n_starting = 0;
    for kill in 0..n_kills {
        if random.below(4) == 0 {
            n_starting += 1;
            site.kill_while_starting(random.life());
            continue;
        }
        let server = site.serve();
        if kill % LIVES_PER_CATCH_UP == 0 {
            server.await_decisions();
        }
        if random.below(3) == 0 {
            seen.extend(rows(server.sql(DECISIONS)));
        }
        load_and_kill(server, (seed << 32) | kill, random.life(), &mut sent);
    }
    let server = site.serve();
    let conservation = server.await_decisions();
    server.stop();
    println!(
        "SEED={seed}: {n_kills} kills, {n_starting} of them while the server started; {}; {conservation}",
        check_stored(&site, &sent, &seen)
    );
}
