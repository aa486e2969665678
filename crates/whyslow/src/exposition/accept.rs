//! Which format a scraper's `Accept` asks for.

/// A format of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    OpenMetrics,
    Protobuf,
}

impl Format {
    /// The best of what is accepted; text where nothing fits, as everybody reads it.
    pub(crate) fn accepted(accept: &str) -> Self {
        let mut best = (0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let (mut thousandths, mut parameters) = (1_000, Vec::new());
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                let value = value.trim().trim_matches('"');
                match name.trim() {
                    "q" => thousandths = quality(value),
                    name => parameters.push((name, value)),
                }
            }
            // Of equals the first.
            if let Some(format) = Self::of(media, &parameters)
                && thousandths > best.0
            {
                best = (thousandths, format);
            }
        }
        best.1
    }

    fn of(media: &str, parameters: &[(&str, &str)]) -> Option<Self> {
        let parameter = |wanted: &str| {
            let mut found = parameters.iter().filter(|(name, _)| *name == wanted);
            found.next().map(|(_, value)| *value)
        };
        match media {
            "application/vnd.google.protobuf" => {
                let is_ours = parameter("proto") == Some("io.prometheus.client.MetricFamily")
                    && parameter("encoding") == Some("delimited");
                is_ours.then_some(Self::Protobuf)
            }
            "application/openmetrics-text" => {
                let version = parameter("version").unwrap_or("1.0.0");
                matches!(version, "0.0.1" | "1.0.0").then_some(Self::OpenMetrics)
            }
            "text/plain" | "text/*" | "*/*" => Some(Self::Text),
            _ => None,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// `q` in thousandths; 0 where it is no quality.
fn quality(text: &str) -> u16 {
    let quality: f32 = text.parse().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 1000; a NaN is 0"
    )]
    let thousandths = (quality.clamp(0.0, 1.0) * 1_000.0) as u16;
    thousandths
}
