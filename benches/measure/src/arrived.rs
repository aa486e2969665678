//! Spans that have arrived, with what the intake finds before it indexes them.

use otlp::{
    export::{Limits, SpanAt},
    span::SpanSummary,
};

use crate::Template;

/// A span of an export.
#[derive(Debug)]
pub struct Arrived {
    /// Number of its export.
    pub export: u64,
    /// Where it stands there. As long as the program runs, so that it can stand beside its summary.
    pub at: SpanAt<'static>,
    /// Its summary.
    pub summary: SpanSummary<'static>,
    /// Does another resource than that of the span before begin here?
    pub has_new_resource: bool,
}

/// The spans of the first `n_exports` exports, in order. Their bytes are never given back.
///
/// # Errors
/// Those of `otlp`, if an export were not well-formed.
pub fn arrived(template: &Template, n_exports: u64) -> otlp::Result<Vec<Arrived>> {
    let mut spans = Vec::with_capacity(template.n_spans() * n_exports as usize);
    for export in 0..n_exports {
        let body: &'static [u8] = template.export(export).body.leak();
        let mut resource = None;
        for at in otlp::export::spans(body, &Limits::default()) {
            let at = at?;
            let own = Some(at.resource.as_ptr());
            spans.push(Arrived {
                export,
                summary: SpanSummary::read(at.span)?,
                at,
                has_new_resource: resource != own,
            });
            resource = own;
        }
    }
    Ok(spans)
}
