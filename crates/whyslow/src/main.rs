//! `whyslow`: a tail-sampling trace pipeline for LLM serving. Commands and exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed; the message says where and what to do |
//! | 2, 64 | wrong usage, or a configuration that is refused |
//!
//! Stages live in their own crates; what connects them is [`serve::Service::start`].

mod check;
mod compare;
mod config;
mod connect;
mod demo;
mod explain;
mod exposition;
mod generate;
mod history;
mod maintain;
mod measured;
mod moment;
mod replay;
mod serve;
mod show;
mod simulate;
#[cfg(test)]
mod simulation;
mod slow;
mod sql;
mod store;
mod why;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use tracing_subscriber::EnvFilter;

/// A pipeline frees on one thread what another has allocated, and many of its threads are idle for a while. The allocator
/// of the system serialises such frees; mimalloc keeps what it gets back with the thread that allocated it, and after a
/// minute of load that is more than is in use.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Configuration errors, as `sysexits.h` numbers them.
const EXIT_CONFIG: u8 = 64;

/// Why was the answer slow? OTLP traces in, tail sampling, Delta tables out, SQL.
#[derive(Debug, Parser)]
#[command(version, after_help = "Start here:\n  whyslow demo\n  whyslow serve")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(serve::Args),
    Demo(demo::Args),
    Check(check::Args),
    Sql(sql::Args),
    Slow(slow::Args),
    Explain(explain::Args),
    Compare(compare::Args),
    Why(why::Args),
    Simulate(simulate::Args),
    Replay(replay::Args),
    Maintain(maintain::Args),
    Loadgen(generate::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Serve(_)) {
        // Commands that talk to a person log warnings only; a server logs what its configuration says.
        start_log("warn");
    }
    let result = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Serve(args) => block_on(serve::run(args)),
        Command::Demo(args) => block_on(demo::run(args)),
        Command::Sql(args) => block_on(sql::run(args)),
        Command::Slow(args) => block_on(slow::run(args)),
        Command::Explain(args) => block_on(explain::run(args)),
        Command::Compare(args) => block_on(compare::run(args)),
        Command::Why(args) => block_on(why::run(args)),
        Command::Simulate(args) => block_on(simulate::run(args)),
        Command::Replay(args) => block_on(replay::run(args)),
        Command::Maintain(args) => block_on(maintain::run(args)),
        Command::Loadgen(args) => block_on(generate::run(args)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            show::print_error(&format!("whyslow: {error:#}\n"));
            match error.downcast_ref::<config::Error>() {
                Some(_) => ExitCode::from(EXIT_CONFIG),
                None => ExitCode::FAILURE,
            }
        }
    }
}

fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(Box::pin(command));
    // Nothing that still blocks a thread keeps a process that was told to go.
    runtime.shutdown_background();
    result
}

/// Log lines go to standard error, from this level on; `RUST_LOG` overrides it.
pub(crate) fn start_log(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        // The kernel logs every step of every commit at `info`.
        EnvFilter::new(format!("{level},delta_kernel=warn"))
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
}
