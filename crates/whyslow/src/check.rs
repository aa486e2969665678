//! `whyslow check`: validates a pipeline file and prints what would run.

pub(crate) mod policy;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use transport::{Auth, ServerTls};

use crate::config::{self, Loaded, Reviewed, Warning};
use crate::show;

/// Check a pipeline file and print what it would run. Opens no port and writes nothing.
///
/// Sampling policies that probably do not mean what their author wants are pointed out, with line
/// and remedy; also in a Collector's file whose other components do not exist here. The exit code
/// is 64 if the file would be refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  whyslow check -c pipelines/local.yaml")]
pub(crate) struct Args {
    /// Pipeline file; without one the built-in default is checked.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.config.as_deref();
    let loaded = match config::load(path) {
        Ok(loaded) => loaded,
        Err(error) => {
            // A file without readable sections has no more to say than the error.
            let sections = config::review(path).unwrap_or_default();
            show::print(&describe_sections(&sections, &error))?;
            return Err(error.into());
        }
    };
    let name = args
        .config
        .as_ref()
        .map_or("the built-in default".to_owned(), |path| {
            format!("`{}`", path.display())
        });
    show::print(&describe(&name, &loaded))?;
    Ok(())
}

/// What of a refused file would do.
fn describe_sections(sections: &[Reviewed], refused: &config::Error) -> String {
    let mut out = String::new();
    for section in sections {
        for warning in &section.warnings {
            out.push_str(&notice(warning));
        }
        // Writing to a `String` cannot fail.
        match &section.config {
            Ok(config) => {
                let names = config.policies.iter().map(|policy| policy.name.as_str());
                let names = names.collect::<Vec<_>>().join("`, `");
                writeln!(out, "`{}` is valid: `{names}`", section.path).ok();
            }
            Err(error) if error.to_string() != refused.to_string() => {
                writeln!(out, "error: {error}").ok();
            }
            Err(_) => {}
        }
    }
    out
}

/// A warning with its remedy on a line of its own.
fn notice(warning: &Warning) -> String {
    let remedy = warning.remedy.map(|remedy| format!("  remedy: {remedy}\n"));
    format!(
        "{}: {}\n{}",
        warning.severity.as_str(),
        warning.fault,
        remedy.unwrap_or_default()
    )
}

/// What would run, for people.
fn describe(name: &str, loaded: &Loaded) -> String {
    let mut out: String = loaded.warnings.iter().map(notice).collect();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let config = &loaded.config;
    line(format!("{name} is valid. It would run:"));
    sources(config).into_iter().for_each(&mut line);
    line(format!(
        "  log       {}, synced every {:?}, at most {}",
        config.log.directory,
        config.gateway.intake.sync_interval,
        show::text::bytes(config.gateway.intake.log_bytes_max)
    ));
    line(format!("  decide    {}", policy::waits(&config.sampler)));
    for exception in policy::exceptions(&config.sampler) {
        line(format!("            {exception}"));
    }
    for policy in &config.sampler.policies {
        let verb = match policy.policy_type {
            sampler::PolicyType::Drop(_) => "drop",
            _ => "keep",
        };
        line(format!(
            "            {verb} by `{}`: {}",
            policy.name,
            policy::describe(&policy.policy_type)
        ));
    }
    if config.sampler.follows_links() {
        line(format!(
            "            keep what links to a trace kept by a policy, waiting for it up to {:?}",
            config.sampler.linked_traces.wait
        ));
    }
    if let Some(budget) = &config.sampler.budget {
        line(format!("            {}", policy::describe_budget(budget)));
    }
    destinations(config).into_iter().for_each(&mut line);
    match &config.query {
        Some(query) => doors(query).into_iter().for_each(&mut line),
        None => {
            line("  query     off: the extension `query` is not in `service.extensions`".to_owned())
        }
    }
    if let Some(slo) = &config.slo {
        objectives(slo).into_iter().for_each(&mut line);
    }
    if let Some(health) = &config.health_check {
        line(format!(
            "  health    http://{}{}",
            health.endpoint, health.path
        ));
    }
    out
}

/// What is promised.
fn objectives(slo: &config::Slo) -> Vec<String> {
    let days = slo.window.as_secs() / 86_400;
    let head = format!(
        "  slo       {} over {}, counted from all traffic on /metrics",
        show::text::counted(slo.objectives.len() as u64, "objective"),
        show::text::counted(days, "day")
    );
    let objectives = slo.objectives.iter();
    let lines = objectives.map(|objective| format!("            {}", objective.describe()));
    std::iter::once(head).chain(lines).collect()
}

/// Where telemetry comes from.
fn sources(config: &config::Config) -> Vec<String> {
    let mut lines = Vec::new();
    let protocols = &config.gateway.otlp.protocols;
    if let Some(grpc) = &protocols.grpc {
        lines.push(format!(
            "  receive   OTLP/gRPC on {}, messages up to {} MiB{}",
            grpc.endpoint,
            grpc.max_recv_msg_size_mib,
            asked(grpc.tls.as_ref(), grpc.auth.as_ref())
        ));
    }
    if let Some(http) = &protocols.http {
        lines.push(format!(
            "  receive   OTLP/HTTP on {}, bodies up to {}{}",
            http.endpoint,
            show::text::bytes(http.max_request_body_size),
            asked(http.tls.as_ref(), http.auth.as_ref())
        ));
    }
    for scraper in &config.scrapers {
        let (id, words) = (scraper.id(), scraper.describe());
        let verb = match scraper.asks {
            config::Asks::Targets(_) => "scrape",
            config::Asks::Kubelet(_) => "look   ",
        };
        lines.push(format!("  {verb}    `{id}`: {words}"));
    }
    lines
}

/// Where SQL is answered.
fn doors(query: &query::Config) -> Vec<String> {
    let (postgres, flight_sql) = (&query.postgres, &query.flight_sql);
    let mut lines = vec![format!(
        "  query     SQL, /healthz, /readyz and /metrics on http{}://{}{}",
        query.tls.as_ref().map_or("", |_| "s"),
        query.endpoint,
        asked(query.tls.as_ref(), query.auth.as_ref())
    )];
    if postgres.enabled {
        lines.push(format!(
            "            SQL by the protocol of Postgres on {}{}",
            postgres.endpoint,
            asked(postgres.tls.as_ref(), postgres.auth.as_ref())
        ));
    }
    if flight_sql.enabled {
        lines.push(format!(
            "            Arrow Flight SQL on {}{}",
            flight_sql.endpoint,
            asked(flight_sql.tls.as_ref(), flight_sql.auth.as_ref())
        ));
    }
    lines
}

/// What must be proved at a listener.
fn asked(tls: Option<&ServerTls>, auth: Option<&Auth>) -> String {
    let mut out = String::new();
    match tls {
        None => {}
        Some(tls) if tls.client_ca_file.is_empty() => out.push_str(", TLS"),
        Some(_) => out.push_str(", TLS with clients' certificates"),
    }
    if let Some(auth) = auth {
        // Writing to a `String` cannot fail.
        write!(out, ", tokens of `{}`", auth.authenticator).ok();
    }
    out
}

/// What is taken out, and where the rest goes.
fn destinations(config: &config::Config) -> Vec<String> {
    let elsewhere = match config.exporters.as_slice() {
        [] => "",
        _ if config.is_redacting => "; so for every exporter",
        _ => "; other backends get spans as they came, because the pipeline has no `redact`",
    };
    let mut lines = vec![format!(
        "  redact    {}{elsewhere}",
        redaction(&config.redact)
    )];
    match &config.lake {
        Some(lake) => {
            lines.push(format!(
                "  store     Delta tables at {}, committed every {:?} or {}",
                lake.path,
                lake.commit_interval,
                show::text::bytes(lake.commit_bytes)
            ));
            let correlate = &config.correlate;
            let placements = correlate.placements_file.as_ref();
            lines.push(format!(
                "  evidence  of kept requests from GPU samples that come within {:?}{}; pods on GPUs by reports over \
                 gRPC, {}exporters' labels{}",
                correlate.max_lateness,
                completed(correlate.completion_wait),
                if has_kubelet(config) { "the kubelet, " } else { "" },
                placements.map_or(String::new(), |file| format!(", `{file}`")),
            ));
            lines.push(format!("  batches   {}", correlate.batches.describe()));
            lines.push(maintenance(&lake.maintenance));
        }
        None => lines.push("  store     nothing: the pipeline has no exporter `lake`".to_owned()),
    }
    for exporter in &config.exporters {
        let words = exporter.describe();
        lines.push(format!("  export    `{}`: {words}", exporter.id));
    }
    lines
}

fn completed(wait: Duration) -> String {
    if wait.is_zero() {
        return String::new();
    }
    format!(", completed once by those of the next {wait:?}")
}

fn has_kubelet(config: &config::Config) -> bool {
    let asks = config.scrapers.iter().map(|scraper| &scraper.asks);
    asks.into_iter()
        .any(|asks| matches!(asks, config::Asks::Kubelet(_)))
}

fn maintenance(maintenance: &config::Maintenance) -> String {
    let when = if maintenance.interval.is_zero() {
        "only by `whyslow maintain`".to_owned()
    } else {
        format!("every {:?}", maintenance.interval)
    };
    let kept = tables::all().map(|spec| match maintenance.retention_days.of(spec) {
        None => format!("{} for ever", spec.name),
        Some(days) => format!("{} {}", spec.name, show::text::counted(days.into(), "day")),
    });
    format!("  maintain  {when}; keep {}", kept.join(", "))
}

fn redaction(redact: &tables::redact::Config) -> String {
    let content = match redact.content {
        tables::redact::Content::Drop => "prompts and completions dropped",
        tables::redact::Content::Keep => "prompts and completions stored",
    };
    let cut = redact
        .value_bytes_max
        .map_or("values whole".to_owned(), |max| {
            format!("values cut at {max} bytes")
        });
    format!("{content}, {cut}")
}

#[cfg(test)]
mod tests {
    use super::{describe, describe_sections};
    use crate::config;

    const PROCESSORS: &str = "\
processors:
  tail_sampling:
    policies:
      - name: rare
        type: probabilistic
        probabilistic:
          sampling_percentage: 0.1
      - {name: probes, type: drop, drop: {drop_sub_policy: [{name: f, type: trace_flags}]}}
receivers: {otlp: {protocols: {grpc: {}}}}
service: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling], exporters: [EXPORTER]}}}
exporters: {EXPORTER: {}}
";

    const FOUND: &str = "\
note: `processors::tail_sampling::policies[0]::probabilistic::sampling_percentage` (line 7): policy `rare`: is a percentage: 0.1 keeps one trace in 1000
  remedy: if a fraction was meant, multiply it by 100
";

    #[test]
    fn what_is_found_comes_first_with_line_and_remedy() {
        let loaded = config::parse(&PROCESSORS.replace("EXPORTER", "lake"), &|_| None).unwrap();
        let text = describe("this", &loaded);
        let rest = text.strip_prefix(FOUND).unwrap();
        assert!(rest.starts_with("this is valid"), "{rest}");
        assert!(rest.contains("keep by `rare`: 0.1 % by trace id"), "{rest}");
        assert!(rest.contains("drop by `probes`: a span with"), "{rest}");
    }

    #[test]
    fn a_file_that_is_refused_for_something_else_is_read_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("collector.yaml");
        std::fs::write(&path, PROCESSORS.replace("EXPORTER", "kafka")).unwrap();
        let error = config::load(Some(&path)).unwrap_err();
        let sections = config::review(Some(&path)).unwrap();
        assert_eq!(
            describe_sections(&sections, &error),
            format!("{FOUND}`processors::tail_sampling` is valid: `rare`, `probes`\n")
        );
    }
}
