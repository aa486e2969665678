//! `whyslow check`: validates a pipeline file and prints what would run.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::config::{self, Loaded};
use crate::show;

/// Check a pipeline file and print what it would run. Opens no port and writes nothing.
///
/// The exit code is 64 if the file would be refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  whyslow check -c pipelines/local.yaml")]
pub(crate) struct Args {
    /// Pipeline file; without one the built-in default is checked.
    #[arg(short, long, value_name = "FILE", env = "WHYSLOW_CONFIG")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let loaded = config::load(args.config.as_deref())?;
    let name = args
        .config
        .as_ref()
        .map_or("the built-in default".to_owned(), |path| {
            format!("`{}`", path.display())
        });
    show::print(&describe(&name, &loaded))?;
    Ok(())
}

/// What would run, for people.
fn describe(name: &str, loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    for warning in &loaded.warnings {
        line(format!("warning: {warning}"));
    }
    let config = &loaded.config;
    let protocols = &config.gateway.otlp.protocols;
    line(format!("{name} is valid. It would run:"));
    if let Some(grpc) = &protocols.grpc {
        line(format!(
            "  receive   OTLP/gRPC on {}, messages up to {} MiB",
            grpc.endpoint, grpc.max_recv_msg_size_mib
        ));
    }
    if let Some(http) = &protocols.http {
        line(format!(
            "  receive   OTLP/HTTP on {}, bodies up to {}",
            http.endpoint,
            show::text::bytes(http.max_request_body_size)
        ));
    }
    line(format!(
        "  log       {}, synced every {:?}, at most {}",
        config.log.directory,
        config.gateway.intake.sync_interval,
        show::text::bytes(config.gateway.intake.log_bytes_max)
    ));
    line(format!("  decide    {}", waits(&config.sampler)));
    for policy in &config.sampler.policies {
        line(format!(
            "            keep by `{}`: {}",
            policy.name,
            policy_type(&policy.policy_type)
        ));
    }
    line(format!("  redact    {}", redaction(&config.redact)));
    line(format!(
        "  store     Delta tables at {}, committed every {:?} or {}",
        config.lake.path,
        config.lake.commit_interval,
        show::text::bytes(config.lake.commit_bytes)
    ));
    line(maintenance(&config.lake.maintenance));
    match &config.query {
        Some(query) => line(format!(
            "  query     SQL, /healthz, /readyz and /metrics on http://{}",
            query.endpoint
        )),
        None => {
            line("  query     off: the extension `query` is not in `service.extensions`".to_owned())
        }
    }
    if let Some(health) = &config.health_check {
        line(format!(
            "  health    http://{}{}",
            health.endpoint, health.path
        ));
    }
    out
}

fn maintenance(maintenance: &config::Maintenance) -> String {
    let when = if maintenance.interval.is_zero() {
        "only by `whyslow maintain`".to_owned()
    } else {
        format!("every {:?}", maintenance.interval)
    };
    let days = maintenance.retention_days;
    let kept = [
        ("spans", days.spans),
        ("traces", days.traces),
        ("requests", days.requests),
    ]
    .map(|(table, days)| match days {
        0 => format!("{table} for ever"),
        days => format!("{table} {}", show::text::counted(days.into(), "day")),
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

fn waits(sampler: &sampler::Config) -> String {
    let mut out = format!("{:?} after a trace's first span", sampler.decision_wait);
    if let Some(wait) = sampler
        .decision_wait_after_root_received
        .filter(|wait| !wait.is_zero())
    {
        // Writing to a `String` cannot fail.
        write!(out, ", or {wait:?} after its root").ok();
    }
    out
}

fn policy_type(policy: &sampler::PolicyType) -> String {
    match policy {
        sampler::PolicyType::AlwaysSample => "every trace".to_owned(),
        sampler::PolicyType::Latency(latency) if latency.upper_threshold_ms > 0 => format!(
            "longer than {} ms, at most {} ms",
            latency.threshold_ms, latency.upper_threshold_ms
        ),
        sampler::PolicyType::Latency(latency) => {
            format!("longer than {} ms", latency.threshold_ms)
        }
        sampler::PolicyType::NumericAttribute(numeric) => {
            format!("a number in the attribute `{}`", numeric.key)
        }
        sampler::PolicyType::Probabilistic(p) => {
            format!("{} % by trace id", p.sampling_percentage)
        }
        sampler::PolicyType::StatusCode(codes) => {
            format!("a span with status {}", codes.status_codes.join(" or "))
        }
        sampler::PolicyType::StringAttribute(string) => {
            let not = if string.invert_match {
                "no span with "
            } else {
                ""
            };
            format!(
                "{not}the attribute `{}` matching {}",
                string.key,
                string.values.join(" or ")
            )
        }
        sampler::PolicyType::And(and) => {
            let all: Vec<String> = and
                .and_sub_policy
                .iter()
                .map(|sub| policy_type(&sub.policy_type))
                .collect();
            all.join(" and ")
        }
    }
}
