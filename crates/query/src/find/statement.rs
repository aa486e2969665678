//! A statement while it is written.

use datafusion::common::ScalarValue;

/// Text of a statement and the values of `$1`, `$2` and so on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) parameters: Vec<ScalarValue>,
}

impl Draft {
    /// Takes a value and gives what stands for it in the text.
    pub(crate) fn bind(&mut self, value: impl Into<ScalarValue>) -> String {
        self.parameters.push(value.into());
        format!("${}", self.parameters.len())
    }

    /// Takes values and gives them as what follows `IN`.
    pub(crate) fn bind_all<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) -> String {
        let places: Vec<String> = values.into_iter().map(|value| self.bind(value)).collect();
        format!("({})", places.join(", "))
    }

    /// With this text, of which `$1` and so on are what [`Draft::bind`] gave.
    pub(crate) fn with(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }
}
