//! Instructions per span on the hot path, counted by callgrind and compared with a record.
//!
//! `cargo bench -p measure --bench instructions` counts and compares; `-- --update` writes the record
//! (`instructions.csv` beside the manifest) anew; `-- --profile PART` keeps the counts of one part for
//! `callgrind_annotate`. Instructions are counted because they say the same on a busy machine and on another one, which
//! time does not; what they leave out is waiting for memory and for the disk.
//!
//! `-- --policies` counts folding and deciding under 1 to 100 policies.
//!
//! With `--features intake` the whole intake is counted too; for that the gateway and what it needs of the network are
//! compiled, which takes minutes from nothing. The others take seconds.
//!
//! A count holds for a compiler and for the processor that valgrind emulates, which has AVX2 wherever the real one has
//! it. With another compiler differences are shown and not judged; without AVX2, or without valgrind, nothing is.
#![expect(clippy::print_stdout, reason = "a bench prints its numbers")]

mod parts;
mod record;

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
};

use measure::POLICIES_MAX;

use crate::{
    parts::{PARTS, Prepared},
    record::{Count, Record},
};

/// As in the service: the allocator is a part of what a span costs.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Asks this program, under callgrind, for one part.
const PART_FLAG: &str = "--part";

/// Parts for any number of policies: `fold-37`.
const FOLD_PREFIX: &str = "fold-";
const DECIDE_PREFIX: &str = "decide-";

/// How much more, in hundredths, is a regression, and how much less calls for a new record.
const MARGIN_PERCENT: f64 = 5.0;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    // `cargo bench` adds a flag of its own.
    let arguments: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [PART_FLAG, part] => {
            println!("{}", counted(&mut prepared(part)?));
            Ok(())
        }
        ["--profile", part] => profile(part),
        ["--update"] => update(),
        ["--policies"] => scale(),
        [] => compare(),
        _ => Err(format!("no such arguments: {arguments:?}").into()),
    }
}

/// The only function in which callgrind counts: it knows it by its name. Returns how many spans there were.
#[inline(never)]
fn counted(part: &mut Prepared) -> u64 {
    black_box(part())
}

fn prepared(part: &str) -> Result<Prepared, Failure> {
    let number = |prefix| {
        part.strip_prefix(prefix)
            .and_then(|number: &str| number.parse().ok())
    };
    if let Some(n_policies) = number(FOLD_PREFIX) {
        return parts::fold(n_policies);
    }
    if let Some(n_policies) = number(DECIDE_PREFIX) {
        return parts::decide(n_policies);
    }
    let known = PARTS.iter().find(|known| known.name == part);
    let known = known.ok_or_else(|| format!("no such part: {part}"))?;
    (known.prepare)()
}

/// How the cost of a span grows with the number of policies, as a table.
fn scale() -> Result<(), Failure> {
    if let Some(why) = hindrance() {
        return Err(format!("instructions cannot be counted: {why}").into());
    }
    println!("policies,fold_instructions_per_span,decide_instructions_per_span");
    for n_policies in [1, 2, 5, 10, 20, 50, POLICIES_MAX] {
        let [fold, decide] =
            [FOLD_PREFIX, DECIDE_PREFIX].map(|prefix| count(&format!("{prefix}{n_policies}")));
        println!("{n_policies},{:.1},{:.1}", fold?, decide?);
    }
    Ok(())
}

fn compare() -> Result<(), Failure> {
    if let Some(why) = hindrance() {
        println!("instructions are not counted: {why}");
        return Ok(());
    }
    let record = Record::read(&record_path())?;
    let compiler = compiler()?;
    let is_judged = record.compiler == compiler;
    if !is_judged {
        println!(
            "the record is of `{}`; with `{compiler}` differences are shown and not judged",
            record.compiler
        );
    }
    let mut n_wrong = 0;
    for part in PARTS {
        let now = count(part.name)?;
        let before = record.of(part.name);
        let change = before.map_or(f64::INFINITY, |before| 100.0 * (now / before - 1.0));
        let is_wrong = change.abs() > MARGIN_PERCENT;
        n_wrong += u32::from(is_wrong);
        println!(
            "{:<12} {now:>8.1} instructions/span, recorded {:>8.1} ({change:+.1} %){}",
            part.name,
            before.unwrap_or(f64::NAN),
            if is_wrong { "  <--" } else { "" },
        );
    }
    if n_wrong > 0 && is_judged {
        return Err(format!(
            "{n_wrong} parts differ by more than {MARGIN_PERCENT} % from {}; if that is meant, run \
             `cargo bench -p measure --bench instructions -- --update` and commit the record",
            record_path().display()
        )
        .into());
    }
    Ok(())
}

fn update() -> Result<(), Failure> {
    if let Some(why) = hindrance() {
        return Err(format!("instructions cannot be counted: {why}").into());
    }
    let before =
        Record::read(&record_path()).map_or_else(|_none| Vec::new(), |record| record.counts);
    let is_counted = |count: &Count| PARTS.iter().any(|part| part.name == count.part);
    let mut counts = Vec::new();
    for part in PARTS {
        let per_span = count(part.name)?;
        println!("{:<12} {per_span:>8.1} instructions/span", part.name);
        counts.push(Count {
            part: part.name.to_owned(),
            what: part.what.to_owned(),
            per_span,
        });
    }
    // Of parts that this build leaves out.
    counts.extend(before.into_iter().filter(|count| !is_counted(count)));
    let record = Record {
        compiler: compiler()?,
        counts,
    };
    record.write(&record_path())
}

fn profile(part: &str) -> Result<(), Failure> {
    let out = env::temp_dir().join(format!("callgrind.{part}"));
    let per_span = count_into(part, &out, &["--dump-instr=no", "--separate-callers=0"])?;
    println!("{part}: {per_span:.1} instructions/span");
    println!("callgrind_annotate --inclusive=yes {}", out.display());
    Ok(())
}

/// Why the counts would say nothing here.
fn hindrance() -> Option<&'static str> {
    if cfg!(not(target_arch = "x86_64")) {
        return Some("the record is of x86-64");
    }
    if cfg!(debug_assertions) {
        return Some("this is a build without optimisation");
    }
    if cfg!(target_feature = "avx2") {
        return Some("this was built for a processor, see `target-cpu` in RUSTFLAGS");
    }
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx2") {
        return Some("this processor has no AVX2");
    }
    let valgrind = Command::new("valgrind").arg("--version").output();
    if !valgrind.is_ok_and(|output| output.status.success()) {
        return Some("valgrind is not installed");
    }
    None
}

fn count(part: &str) -> Result<f64, Failure> {
    let folder = tempfile::tempdir()?;
    count_into(part, &folder.path().join("callgrind.out"), &[])
}

/// glibc copies long ranges by an instruction that repeats itself and is counted per byte; this has it copy by vectors
/// at any length, which is what the count is to be compared by.
const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=0x10000000:\
                        glibc.cpu.x86_non_temporal_threshold=0x10000000";

/// Instructions per span of a part.
fn count_into(part: &str, out: &Path, options: &[&str]) -> Result<f64, Failure> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=instructions::counted"])
        .args(options)
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe()?)
        .args([PART_FLAG, part])
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{part} failed under valgrind: {said}").into());
    }
    let n_spans: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    let file = fs::read_to_string(out)?;
    let mut words = file.lines().filter_map(|line| line.split_once(": "));
    let total = words.find(|(key, _)| *key == "summary" || *key == "totals");
    let total: f64 = total.map_or(Ok(0.0), |(_, number)| number.trim().parse())?;
    if total == 0.0 {
        return Err(format!("{part}: callgrind has counted nothing: {said}").into());
    }
    Ok(total / n_spans)
}

fn compiler() -> Result<String, Failure> {
    let rustc = env::var_os("RUSTC");
    let rustc = rustc.as_deref().unwrap_or_else(|| OsStr::new("rustc"));
    let output = Command::new(rustc).arg("--version").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn record_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.csv")
}
