//! Errors as clients of Postgres know them: a code (SQLSTATE), a message, and what to do about it.

use bytes::{BufMut, BytesMut};

use crate::error::Error;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// How much of the connection a problem ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Nothing: the answer comes.
    Warning,
    /// The statement.
    Error,
    /// The connection.
    Fatal,
}

impl Problem {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The client does not speak the protocol.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    /// A statement that would change something.
    pub(crate) fn read_only(what: &str) -> Self {
        Self::new("25006", format!("{what} is refused: nothing can be changed here"))
            .hint("only queries are answered; the settings that clients may name are in the documentation")
    }

    pub(crate) fn write(&self, severity: Severity, out: &mut BytesMut) {
        let word = match severity {
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        };
        let kind = if severity == Severity::Warning {
            b'N'
        } else {
            b'E'
        };
        let mut fields = vec![
            (b'S', word),
            (b'V', word),
            (b'C', self.code),
            (b'M', &self.message),
        ];
        fields.extend(self.hint.as_deref().map(|hint| (b'H', hint)));
        let start = out.len();
        out.put_u8(kind);
        out.put_i32(0);
        for (field, text) in fields {
            out.put_u8(field);
            // A zero byte would end the text.
            out.extend(text.bytes().filter(|byte| *byte != 0));
            out.put_u8(0);
        }
        out.put_u8(0);
        let n_bytes = i32::try_from(out.len() - start - 1).unwrap_or(i32::MAX);
        if let Some(length) = out.get_mut(start + 1..start + 5) {
            length.copy_from_slice(&n_bytes.to_be_bytes());
        }
    }
}

/// The one place where errors of statements become codes. What only we can act on goes to the log.
impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let code = match error {
            Error::NoStatement | Error::SeveralStatements { .. } | Error::Syntax { .. } => "42601",
            Error::NotReadOnly { .. } => "25006",
            Error::UnknownTable { .. } => "42P01",
            Error::UnknownColumn { .. } => "42703",
            Error::Unanswerable { .. } => "42000",
            Error::TooLong { .. } => "54000",
            Error::TooComplex { .. } => "54001",
            Error::TimedOut { .. } => "57014",
            Error::OutOfMemory { .. } => "53200",
            Error::Busy { .. } | Error::BusyUser { .. } => "53300",
            Error::Storage { .. } => "58030",
            Error::Internal { .. }
            | Error::Ended { .. }
            | Error::Threads { .. }
            | Error::View { .. } => "XX000",
        };
        if matches!(code, "58030" | "XX000") {
            crate::http::log_fault(error);
        }
        let problem = Self::new(code, error.explanation());
        match error {
            Error::UnknownTable { name, known } => {
                Self::new(code, format!("there is no table `{name}`"))
                    .hint(format!("the tables are {}", known.join(", ")))
            }
            Error::UnknownColumn { name, hint, .. } => {
                Self::new(code, format!("there is no column `{name}`")).hint(hint.clone())
            }
            Error::Busy { .. } => problem.hint("try again later"),
            _ => problem,
        }
    }
}
