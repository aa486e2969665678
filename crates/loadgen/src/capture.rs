//! Captured trace export requests on disk: one file per request, read one at a time in arrival
//! order.
//!
//! Limits: a request has at most [`REQUEST_BYTES_MAX`] bytes after inflating.
//!
//! Names: `*.pb` and `*.json`, each also with `.gz` (`00001.trace.pb.gz`). A folder gives the files
//! in it that have such a name, sorted by name, or those of its subfolder `traces` if it has one;
//! deeper folders are not visited. Gzip is recognised by its first two bytes, which begin neither
//! protobuf nor JSON, so that a wrong name does no harm.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use otlp::export::{Limits, Signal};
use otlp::wire::{Fields, Value};

use crate::{Error, Result};

/// The largest request that is read, after inflating: OTLP's recommended limit of a server is a
/// quarter of it.
pub const REQUEST_BYTES_MAX: u64 = 256 << 20;

/// The files of a capture in the order in which they are to be sent.
#[derive(Debug, Clone)]
pub struct Capture {
    files: Vec<PathBuf>,
}

/// One captured export request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The file that it comes from.
    pub path: PathBuf,
    /// A protobuf `ExportTraceServiceRequest`.
    pub body: Vec<u8>,
    /// Spans in the body, whether a server would accept them or not.
    pub n_spans: u64,
}

impl Capture {
    /// Lists the files; paths keep the order in which they are given.
    ///
    /// # Errors
    ///
    /// A path cannot be read, a file has an unknown name, or a folder holds no request.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let metadata = fs::metadata(path).map_err(|source| Error::Read {
                path: path.to_owned(),
                source,
            })?;
            if metadata.is_dir() {
                files.extend(files_of_folder(path)?);
            } else if encoding(path).is_some() {
                files.push(path.to_owned());
            } else {
                return Err(Error::UnknownName {
                    path: path.to_owned(),
                });
            }
        }
        Ok(Self { files })
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads the requests, each when it is asked for; a bad file is one error that names it, and
    /// the next follows.
    pub fn requests(&self) -> impl Iterator<Item = Result<Captured>> + '_ {
        self.files.iter().map(|path| read(path))
    }
}

/// Reads one request.
///
/// # Errors
///
/// The file cannot be read or inflated, is too large, or is not an export request in the encoding
/// of its name.
pub fn read(path: &Path) -> Result<Captured> {
    let encoding = encoding(path).ok_or_else(|| Error::UnknownName {
        path: path.to_owned(),
    })?;
    let content = inflate(path)?;
    let body = match encoding {
        Encoding::Protobuf => content,
        Encoding::Json => otlp::json::to_protobuf(Signal::Traces, &content, &Limits::default())
            .map_err(|source| Error::Json {
                path: path.to_owned(),
                source,
            })?,
    };
    let n_spans = count_spans(&body).map_err(|source| Error::Protobuf {
        path: path.to_owned(),
        source,
    })?;
    Ok(Captured {
        path: path.to_owned(),
        body,
        n_spans,
    })
}

/// What a target said when it was scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scraped {
    /// Nanoseconds since 1970.
    pub at_unix_nano: u64,
    /// Prometheus text.
    pub text: Vec<u8>,
}

/// Reads the captured scrapes of a folder in order of time; none where there is no folder.
///
/// The name of a file is the time, `SECONDS.MILLIS.prom.gz`; other files are left out.
///
/// # Errors
///
/// The folder or a file cannot be read or inflated, or a file is too large.
pub fn scrapes(folder: &Path) -> Result<Vec<Scraped>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let in_folder = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut scrapes = Vec::new();
    for entry in fs::read_dir(folder).map_err(in_folder)? {
        let path = entry.map_err(in_folder)?.path();
        if let Some(at_unix_nano) = time_of_name(&path) {
            let text = inflate(&path)?;
            scrapes.push(Scraped { at_unix_nano, text });
        }
    }
    scrapes.sort_by_key(|scraped| scraped.at_unix_nano);
    Ok(scrapes)
}

fn time_of_name(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let (seconds, millis) = name.strip_suffix(".prom.gz")?.split_once('.')?;
    let millis = millis.parse::<u64>().ok().filter(|_| millis.len() == 3)?;
    let seconds = seconds.parse::<u64>().ok()?;
    seconds
        .checked_mul(1_000)?
        .checked_add(millis)?
        .checked_mul(1_000_000)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
}

fn encoding(path: &Path) -> Option<Encoding> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match name.rsplit_once('.')?.1 {
        "pb" => Some(Encoding::Protobuf),
        "json" => Some(Encoding::Json),
        _ => None,
    }
}

fn files_of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let traces = folder.join("traces");
    let folder = if traces.is_dir() {
        traces.as_path()
    } else {
        folder
    };
    let in_folder = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(in_folder)? {
        let path = entry.map_err(in_folder)?.path();
        if encoding(&path).is_some() && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::NoRequests {
            path: folder.to_owned(),
        });
    }
    files.sort();
    Ok(files)
}

fn inflate(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let content = read_bounded(path, file).map_err(failed)??;
    if !content.starts_with(&[0x1f, 0x8b]) {
        return Ok(content);
    }
    read_bounded(path, MultiGzDecoder::new(content.as_slice())).map_err(|source| {
        Error::Inflate {
            path: path.to_owned(),
            source,
        }
    })?
}

/// The outer result is the reader's, the inner one the limit's.
fn read_bounded(path: &Path, reader: impl io::Read) -> io::Result<Result<Vec<u8>>> {
    let mut content = Vec::new();
    let n_bytes = reader
        .take(REQUEST_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    let is_too_large = u64::try_from(n_bytes).is_ok_and(|n_bytes| n_bytes > REQUEST_BYTES_MAX);
    Ok(if is_too_large {
        Err(Error::TooLarge {
            path: path.to_owned(),
            bytes_max: REQUEST_BYTES_MAX,
        })
    } else {
        Ok(content)
    })
}

/// Counts spans down to their framing and no further: what is inside a span is for the server to
/// judge, so that captured trouble can be replayed.
fn count_spans(body: &[u8]) -> Result<u64, otlp::Error> {
    let mut n_spans = 0;
    let mut request = Fields::new(body);
    while let Some(field) = request.next() {
        let (1, Value::Bytes(resource_spans)) = field? else {
            continue;
        };
        let mut resource_spans = request.child(resource_spans);
        while let Some(field) = resource_spans.next() {
            let (2, Value::Bytes(scope_spans)) = field? else {
                continue;
            };
            for field in resource_spans.child(scope_spans) {
                n_spans += u64::from(matches!(field?, (2, Value::Bytes(_))));
            }
        }
    }
    Ok(n_spans)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use expect_test::{Expect, expect};
    use flate2::{Compression, write::GzEncoder};
    use tempfile::TempDir;

    use super::{Capture, fs};

    /// One resource with one scope with two empty spans.
    const TWO_SPANS: &[u8] = b"\x0a\x06\x12\x04\x12\x00\x12\x00";
    const JSON: &[u8] = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":
        "00000000000000000000000000000001","spanId":"0000000000000001","name":"one"}]}]}]}"#;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Writes the files, replays `paths`, and prints one line a request or error.
    fn check(files: &[(&str, &[u8])], paths: &[&str], expected: Expect) {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let paths: Vec<_> = paths.iter().map(|path| folder.path().join(path)).collect();
        let mut lines = String::new();
        match Capture::open(&paths) {
            Err(error) => lines.push_str(&format!("{error}\n")),
            Ok(capture) => {
                for request in capture.requests() {
                    lines.push_str(&match request {
                        Ok(request) => {
                            format!("{} {} spans\n", request.path.display(), request.n_spans)
                        }
                        Err(error) => format!("{error}\n"),
                    });
                }
            }
        }
        expected.assert_eq(&lines.replace(&format!("{}/", folder.path().display()), ""));
    }

    #[test]
    fn a_folder_gives_its_requests_by_name_and_nothing_else() {
        check(
            &[
                ("b.trace.pb.gz", &gzip(TWO_SPANS)),
                ("a.pb", TWO_SPANS),
                ("c.json", JSON),
                ("d.json.gz", &gzip(JSON)),
                ("notes.txt", b"not a request"),
                ("deeper/e.pb", TWO_SPANS),
            ],
            &["."],
            expect![[r#"
                ./a.pb 2 spans
                ./b.trace.pb.gz 2 spans
                ./c.json 1 spans
                ./d.json.gz 1 spans
            "#]],
        );
    }

    #[test]
    fn a_capture_with_a_traces_folder_gives_that_folder() {
        check(
            &[
                ("real/traces/1.pb", TWO_SPANS),
                ("real/expected.json", b"[]"),
            ],
            &["real"],
            expect![[r#"
                real/traces/1.pb 2 spans
            "#]],
        );
    }

    #[test]
    fn paths_keep_the_given_order() {
        check(
            &[("1.pb", TWO_SPANS), ("2.pb", b"")],
            &["2.pb", "1.pb"],
            expect![[r#"
                2.pb 0 spans
                1.pb 2 spans
            "#]],
        );
    }

    #[test]
    fn a_bad_file_is_named_and_the_next_one_still_comes() {
        let mut torn = gzip(TWO_SPANS);
        torn.truncate(torn.len() - 4);
        check(
            &[
                ("1.pb", b"\x0a\x09\x12"),
                ("2.json", b"{\"resourceSpans\": 3}"),
                ("3.pb.gz", &torn),
                ("4.pb", TWO_SPANS),
            ],
            &["."],
            expect![[r#"
                `./1.pb` is not a protobuf trace export request
                `./2.json` is not an OTLP/JSON trace export request
                inflate `./3.pb.gz`: not a whole gzip file
                ./4.pb 2 spans
            "#]],
        );
    }

    #[test]
    fn a_path_without_requests_says_so() {
        check(
            &[("empty/readme.md", b"")],
            &["empty"],
            expect![[r#"
            folder `empty` holds no captured export request (`*.pb`, `*.pb.gz`, `*.json`, `*.json.gz`)
        "#]],
        );
        check(
            &[("a.yaml", b"")],
            &["a.yaml"],
            expect![[r#"
            `a.yaml` is not named `*.pb`, `*.pb.gz`, `*.json` or `*.json.gz`
        "#]],
        );
        check(
            &[],
            &["missing"],
            expect![[r#"
            read `missing`
        "#]],
        );
    }

    #[test]
    fn a_request_cut_at_any_byte_is_an_error_or_fewer_spans() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("cut.pb");
        for end in 0..TWO_SPANS.len() {
            fs::write(&path, &TWO_SPANS[..end]).unwrap();
            assert_eq!(super::read(&path).is_ok(), end == 0, "{end}");
        }
    }
}
