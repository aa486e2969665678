//! A running `whyslow serve` in a temporary folder, and what tests ask of it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::Value;

/// Longest wait for a process to be ready or to end. Far more than it takes: these tests also run on
/// machines that are shared.
const PATIENCE: Duration = Duration::from_secs(300);

/// The policies of the captured traffic's oracle.
pub(crate) const SLOW_OR_FAILED: &str =
    "      - {name: slow, type: latency, latency: {threshold_ms: 2000}}
      - {name: failed, type: status_code, status_code: {status_codes: [ERROR]}}
";

/// Everything is kept.
pub(crate) const ALL: &str = "      - {name: all, type: always_sample}\n";

/// The captured traffic `name`, as in `tests/data/README.md`.
pub(crate) fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data")
        .join(name)
}

/// The command line of the binary.
pub(crate) fn whyslow() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command
        .env_remove("RUST_LOG")
        .env_remove("WHYSLOW_CONFIG")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end; panics with its output if it fails.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Where one server keeps its data, and how it decides.
#[derive(Debug)]
pub(crate) struct Site {
    folder: tempfile::TempDir,
    policies: &'static str,
    decision_wait: &'static str,
    shutdown: &'static str,
    /// More keys of `intake`, each with a comma before it.
    intake: &'static str,
    maintain_every: &'static str,
    /// The section of the processor `correlate`.
    correlate: Option<&'static str>,
    /// Exporters instead of `lake`, as a section.
    exporters: Option<String>,
}

impl Site {
    /// Decides at shutdown, on everything that was received: no test waits for a timer.
    pub(crate) fn new(policies: &'static str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            policies,
            decision_wait: "24h",
            shutdown: "decide",
            intake: "",
            // Captures grow older than rows are kept by default.
            maintain_every: "0s",
            correlate: None,
            exporters: None,
        }
    }

    /// Stores nothing; these exporters take what is kept.
    pub(crate) fn exporting(self, exporters: String) -> Self {
        Self {
            exporters: Some(exporters),
            ..self
        }
    }

    /// With these keys of `intake`, each with a comma before it.
    pub(crate) fn with_intake(self, intake: &'static str) -> Self {
        Self { intake, ..self }
    }

    /// With these settings of `correlate`.
    pub(crate) fn correlating(self, correlate: &'static str) -> Self {
        Self {
            correlate: Some(correlate),
            ..self
        }
    }

    /// Decides after this time, and keeps what is undecided at shutdown.
    pub(crate) fn deciding_after(self, decision_wait: &'static str) -> Self {
        Self {
            decision_wait,
            shutdown: "keep",
            ..self
        }
    }

    /// Decides by other policies; the file must be written again.
    pub(crate) fn deciding_by(self, policies: &'static str) -> Self {
        Self { policies, ..self }
    }

    /// Maintains the tables in the background; keeps rows for ever.
    pub(crate) fn maintaining_every(self, maintain_every: &'static str) -> Self {
        Self {
            maintain_every,
            ..self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tables(&self) -> PathBuf {
        self.path().join("tables")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    pub(crate) fn write_config(&self) -> PathBuf {
        let Self {
            policies,
            decision_wait,
            shutdown,
            intake,
            maintain_every,
            correlate,
            exporters,
            ..
        } = self;
        let root = self.path().display();
        let lake = format!(
            "  lake:
    path: '{root}/tables'
    commit_interval: 200ms
    maintenance:
      interval: {maintain_every}
      retention_days: {{spans: 0, traces: 0, requests: 0}}
"
        );
        // Calls without an engine request wait for one; nobody here does, for long.
        let waits_briefly = exporters.is_none().then_some("{stitch_wait: 1s}");
        let (correlate, processors) = match correlate.or(waits_briefly) {
            Some(correlate) => (
                format!("  correlate: {correlate}\n"),
                "tail_sampling, correlate",
            ),
            None => (String::new(), "tail_sampling"),
        };
        let (exporters, answers) = match exporters {
            Some(exporters) => (exporters, "health_check"),
            None => (&lake, "query"),
        };
        let doors = match answers {
            "query" => {
                ", postgres: {endpoint: '127.0.0.1:0'}, flight_sql: {endpoint: '127.0.0.1:0'}"
            }
            _ => "",
        };
        let ids = exporters
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let ids = ids.filter_map(|line| line.trim().split_once(':').map(|(id, _)| id));
        let ids = ids.collect::<Vec<_>>().join(", ");
        let yaml = format!(
            "receivers:
  otlp:
    protocols:
      grpc: {{endpoint: '127.0.0.1:0'}}
      http: {{endpoint: '127.0.0.1:0'}}
processors:
  tail_sampling:
    decision_wait: {decision_wait}
    policies:
{policies}{correlate}exporters:
{exporters}extensions:
  {answers}: {{endpoint: '127.0.0.1:0'{doors}}}
  intake: {{span_age_max: 876000h, shutdown: {shutdown}{intake}}}
  write_ahead_log: {{directory: '{root}/log', segment_bytes: 1048576}}
service:
  extensions: [{answers}, intake, write_ahead_log]
  pipelines:
    traces: {{receivers: [otlp], processors: [{processors}], exporters: [{ids}]}}
"
        );
        let path = self.path().join("pipeline.yaml");
        std::fs::write(&path, yaml).unwrap();
        path
    }

    /// Starts a server here.
    pub(crate) fn serve(&self) -> Server {
        Server::start(&self.write_config())
    }

    /// Starts a server here that watches its file.
    pub(crate) fn serve_watching(&self) -> Server {
        Server::start_by(&mut whyslow(), &self.write_config(), &["--watch"])
    }

    /// Starts a server and kills it, whether it is ready or not.
    pub(crate) fn kill_while_starting(&self, life: Duration) {
        let mut child = whyslow()
            .args(["serve", "-c"])
            .arg(self.write_config())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(life);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Rows of the stored tables, without a server.
    pub(crate) fn stored(&self, sql: &str) -> Vec<Vec<Value>> {
        let tables = self.tables();
        rows(
            whyslow()
                .args(["sql", "--format", "json", "--data"])
                .arg(tables)
                .arg(sql),
        )
    }
}

/// The next line with this text; what came before it is skipped.
fn line_with(lines: &mpsc::Receiver<String>, text: &str) -> String {
    loop {
        let line = lines
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("the server ends or stays silent, without `{text}`"));
        if line.contains(text) {
            return line;
        }
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    /// Everything it has said so far.
    said: Arc<Mutex<String>>,
    pub(crate) grpc: String,
    pub(crate) http: String,
    pub(crate) query: String,
    /// Of the extension `health_check`.
    pub(crate) health: String,
}

impl Server {
    pub(crate) fn start(config: &Path) -> Self {
        Self::start_by(&mut whyslow(), config, &[])
    }

    /// With the environment of this command and more arguments.
    pub(crate) fn start_by(command: &mut Command, config: &Path, args: &[&str]) -> Self {
        let mut child = command
            .args(["serve", "-c"])
            .arg(config)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let said = Arc::<Mutex<String>>::default();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap();
                heard.push_str(&line);
                heard.push('\n');
                drop(heard);
                // Shown by the test runner where the test fails.
                writeln!(std::io::stderr(), "server: {line}").ok();
                // The test may be over before the server's last line.
                sender.send(line).ok();
            }
        });
        let ready = line_with(&lines, "ready otlp_grpc=");
        let field = |name: &str| {
            let (_, value) = ready.split_once(&format!("{name}=\"")).unwrap();
            value.split('"').next().unwrap().to_owned()
        };
        Self {
            child,
            lines,
            said,
            grpc: field("otlp_grpc"),
            http: field("otlp_http"),
            query: format!("http://{}", field("query")),
            health: format!("http://{}", field("health_check")),
        }
    }

    /// Sends a capture with `whyslow replay`.
    pub(crate) fn replay(&self, capture: &Path, protocol: &str, gzip: bool) -> Output {
        let endpoint = if protocol == "grpc" {
            &self.grpc
        } else {
            &self.http
        };
        let mut command = whyslow();
        command.args(["replay", "--protocol", protocol, "--endpoint", endpoint]);
        if gzip {
            command.arg("--gzip");
        }
        succeed(command.arg(capture))
    }

    /// Rows of an answer over HTTP.
    pub(crate) fn sql(&self, sql: &str) -> Vec<Vec<Value>> {
        rows(whyslow().args(["sql", "--format", "json", "--server", &self.query, sql]))
    }

    /// Waits until a count reaches a number.
    pub(crate) fn eventually(&self, sql: &str, expected: i64) {
        let begin = std::time::Instant::now();
        loop {
            let count = self.sql(sql)[0][0].as_i64().unwrap();
            if count == expected {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{sql}: {count}, not {expected}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Value of a metric, over all of its labels that begin like this.
    fn metric(page: &str, name: &str) -> u64 {
        let values = page.lines().filter(|line| line.starts_with(name));
        values
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// Waits until everything is decided and committed, and checks that all of it is accounted for.
    pub(crate) fn await_decisions(&self) -> String {
        let begin = std::time::Instant::now();
        let page = loop {
            let (_, page) = http_get(&format!("{}/metrics", self.query));
            let value = |name: &str| Self::metric(&page, name);
            if value("sampler_traces_pending") == 0
                && value("gateway_release_backlog_spans") == 0
                && value("gateway_release_sequence") == value("gateway_committed_sequence")
            {
                break page;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "not everything is decided:\n{page}"
            );
            std::thread::sleep(Duration::from_millis(100));
        };
        let mut text = Vec::new();
        for unit in ["traces", "spans", "span_bytes"] {
            let total = |state: &str| {
                Self::metric(&page, &format!("sampler_{unit}_total{{state=\"{state}\""))
            };
            let came = total("received") + total("recovered");
            let became = ["sampled", "not_sampled", "dropped", "late"].map(total);
            let pending = Self::metric(&page, &format!("sampler_{unit}_pending"));
            assert_eq!(
                became.iter().sum::<u64>() + pending,
                came,
                "{unit}:\n{page}"
            );
            text.push(format!("{came} {unit}"));
        }
        format!("the last process conserves {}", text.join(", "))
    }

    /// Waits for a line of the metrics.
    pub(crate) fn await_metric(&self, line: &str) {
        let begin = std::time::Instant::now();
        loop {
            let (_, page) = http_get(&format!("{}/metrics", self.query));
            if page.lines().any(|said| said == line) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no `{line}`:\n{page}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, as `kill` names it.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        succeed(Command::new("kill").args([signal, &pid]));
    }

    /// Waits for a line of the server's log.
    pub(crate) fn says(&self, text: &str) -> String {
        line_with(&self.lines, text)
    }

    /// Everything that it has said so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// SIGTERM, and the wait for the end; everything that it has said.
    pub(crate) fn stop(mut self) -> String {
        self.terminate();
        let status = self.end();
        assert!(status.success(), "the server ended with {status}");
        // The reader of its lines ends after the process.
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.said()
    }

    /// Waits for the end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let begin = std::time::Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < PATIENCE, "the server does not stop");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already where a test stopped it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn rows(command: &mut Command) -> Vec<Vec<Value>> {
    let output = succeed(command);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["truncated"], Value::Bool(false), "{command:?}");
    serde_json::from_value(answer["rows"].clone()).unwrap()
}

/// Status and body of a plain HTTP GET.
pub(crate) fn http_get(url: &str) -> (u16, String) {
    use std::io::Read as _;
    let address = url.strip_prefix("http://").unwrap();
    let (host, path) = address.split_at(address.find('/').unwrap());
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}
