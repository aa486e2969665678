//! The recorded counts: a table that a person reads in a diff.

use std::{error::Error, fmt::Write as _, fs, path::Path};

/// Before the name of the compiler, in the first line.
const COMPILER_KEY: &str = "# ";

const HEADER: &str = "part,instructions_per_span,what";

/// Counts by one compiler.
#[derive(Debug)]
pub(crate) struct Record {
    /// As `rustc --version` prints it.
    pub(crate) compiler: String,
    pub(crate) counts: Vec<Count>,
}

/// A line of the record.
#[derive(Debug)]
pub(crate) struct Count {
    pub(crate) part: String,
    pub(crate) what: String,
    /// Instructions per span.
    pub(crate) per_span: f64,
}

impl Record {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines();
        let compiler = lines
            .next()
            .and_then(|line| line.strip_prefix(COMPILER_KEY));
        let (Some(compiler), Some(HEADER)) = (compiler, lines.next()) else {
            return Err(format!("{}: not a record", path.display()).into());
        };
        let counts = lines.map(|line| {
            let mut fields = line.splitn(3, ',');
            let mut field = || fields.next().ok_or_else(|| format!("not a count: {line}"));
            let (part, per_span) = (field()?.to_owned(), field()?.parse()?);
            let what = field()?.to_owned();
            Ok(Count {
                part,
                what,
                per_span,
            })
        });
        Ok(Self {
            compiler: compiler.to_owned(),
            counts: counts.collect::<Result<_, Box<dyn Error>>>()?,
        })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        let mut text = format!("{COMPILER_KEY}{}\n{HEADER}\n", self.compiler);
        for count in &self.counts {
            let Count {
                part,
                what,
                per_span,
            } = count;
            writeln!(text, "{part},{per_span:.1},{what}")?;
        }
        Ok(fs::write(path, text)?)
    }

    /// Instructions per span of this part.
    pub(crate) fn of(&self, part: &str) -> Option<f64> {
        let count = self.counts.iter().find(|count| count.part == part)?;
        Some(count.per_span)
    }
}
