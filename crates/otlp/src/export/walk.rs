//! Walks over the spans of a checked request, with what surrounds each.

use crate::{
    error::{Result, offset_u32},
    export::{Limits, judge},
    span::{Identity, Parts, SpanSummary},
    wire::Fields,
};

/// A span and what surrounds it, all as ranges of the request's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanAt<'a> {
    /// `Resource` message; empty if there is none.
    pub resource: &'a [u8],
    /// Offset of the `ResourceSpans` message in the body: changes when the resource changes.
    pub resource_offset: u32,
    /// `ResourceSpans.schema_url`.
    pub resource_schema_url: &'a str,
    /// `InstrumentationScope` message; empty if there is none.
    pub scope: &'a [u8],
    /// `ScopeSpans.schema_url`.
    pub scope_schema_url: &'a str,
    /// `Span` message.
    pub span: &'a [u8],
    /// Offset of the `Span` message in the body.
    pub offset: u32,
}

/// The accepted spans of a body that passed [`crate::export::check()`] with the same limits, in
/// order: the same spans whenever it is walked. Ends after the first error, which a checked body
/// has not.
#[derive(Clone, Debug)]
pub struct Spans<'a> {
    walk: Walk<'a>,
    limits: Limits,
}

/// See [`summaries`].
#[derive(Clone, Debug)]
pub struct Summaries<'a> {
    spans: Spans<'a>,
}

/// See [`spans_at`].
#[derive(Clone, Debug)]
pub struct SpansAt<'a> {
    walk: Walk<'a>,
    /// Offsets that are not yet found.
    wanted: &'a [u32],
}

/// The accepted spans of a checked body; see [`Spans`].
pub fn spans<'a>(body: &'a [u8], limits: &Limits) -> Spans<'a> {
    Spans {
        walk: Walk::new(body),
        limits: *limits,
    }
}

/// The accepted spans of a checked body and their summaries, both from one pass over each span; see [`Spans`].
pub fn summaries<'a>(body: &'a [u8], limits: &Limits) -> Summaries<'a> {
    Summaries {
        spans: spans(body, limits),
    }
}

/// The spans whose [`SpanAt::offset`] is among `offsets` (ascending), in order, without judging
/// them again. Parts of the body without a listed offset are stepped over. An offset at which no
/// span begins yields nothing: compare the number of spans if that could be.
pub const fn spans_at<'a>(body: &'a [u8], offsets: &'a [u32]) -> SpansAt<'a> {
    SpansAt {
        walk: Walk::new(body),
        wanted: offsets,
    }
}

/// All spans of a body, accepted or not. Ends after the first error.
pub(crate) fn every_span(body: &[u8]) -> impl Iterator<Item = Result<SpanAt<'_>>> {
    let mut walk = Walk::new(body);
    std::iter::from_fn(move || {
        walk.step(|_| true)
            .or_else(|error| walk.fail(error))
            .transpose()
    })
}

impl<'a> Iterator for Spans<'a> {
    type Item = Result<SpanAt<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let identity = |identity: &Identity<'a>| *identity;
        let next = self.next_read(Identity::read, identity);
        next.map(|next| next.map(|(span, _)| span))
    }
}

impl<'a> Iterator for Summaries<'a> {
    type Item = Result<(SpanAt<'a>, SpanSummary<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.spans.next_read(Parts::read, |parts| parts.identity)?;
        Some(next.and_then(|(span, parts)| Ok((span, parts.summary()?))))
    }
}

impl<'a> Spans<'a> {
    /// The next accepted span and what was read of it.
    #[inline(always)]
    fn next_read<T>(
        &mut self,
        read: impl Fn(Fields<'a>) -> Result<T>,
        identity_of: impl Fn(&T) -> Identity<'a>,
    ) -> Option<Result<(SpanAt<'a>, T)>> {
        loop {
            match self.walk.step(|_| true) {
                Ok(Some(span)) => match read(Fields::new(span.span)) {
                    Ok(found) if judge(&identity_of(&found), &self.limits).is_some() => {}
                    Ok(found) => return Some(Ok((span, found))),
                    Err(error) => return Some(self.walk.fail(error)),
                },
                Ok(None) => return None,
                Err(error) => return Some(self.walk.fail(error)),
            }
        }
    }
}

impl<'a> Iterator for SpansAt<'a> {
    type Item = Result<SpanAt<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let &next = self.wanted.first()?;
            match self.walk.step(|end| next < end) {
                Ok(Some(span)) if span.offset < next => {}
                Ok(Some(span)) => {
                    // Offsets below this span's begin no span.
                    let passed = self.wanted.partition_point(|wanted| *wanted <= span.offset);
                    let (passed, wanted) = self.wanted.split_at_checked(passed)?;
                    self.wanted = wanted;
                    if passed.last() == Some(&span.offset) {
                        return Some(Ok(span));
                    }
                }
                Ok(None) => return None,
                Err(error) => return Some(self.walk.fail(error)),
            }
        }
    }
}

/// Three nested walks: over `ResourceSpans`, `ScopeSpans` and spans.
#[derive(Clone, Debug)]
struct Walk<'a> {
    request: Fields<'a>,
    resource_spans: Fields<'a>,
    scope_spans: Fields<'a>,
    /// What surrounds the spans of `scope_spans`; its span is empty.
    around: SpanAt<'a>,
}

impl<'a> Walk<'a> {
    const fn new(body: &'a [u8]) -> Self {
        Self {
            request: Fields::new(body),
            resource_spans: Fields::new(&[]),
            scope_spans: Fields::new(&[]),
            around: SpanAt {
                resource: &[],
                resource_offset: 0,
                resource_schema_url: "",
                scope: &[],
                scope_schema_url: "",
                span: &[],
                offset: 0,
            },
        }
    }

    /// The next span; `enters` is asked with the end of a `ResourceSpans` or `ScopeSpans` whether
    /// there is something in it.
    #[inline]
    fn step(&mut self, enters: impl Fn(u32) -> bool) -> Result<Option<SpanAt<'a>>> {
        loop {
            while let Some((number, value)) = self.scope_spans.step()? {
                if number == 2 {
                    let span = self.scope_spans.bytes_of(number, value)?;
                    let offset = offset_u32(self.scope_spans.offset_of(span));
                    return Ok(Some(SpanAt {
                        span,
                        offset,
                        ..self.around
                    }));
                }
            }
            if let Some((number, value)) = self.resource_spans.step()? {
                if number == 2 && enters(offset_u32(self.resource_spans.offset())) {
                    let scope_spans = self.resource_spans.message_of(number, value)?;
                    (self.around.scope, self.around.scope_schema_url) = head(scope_spans.clone())?;
                    self.scope_spans = scope_spans;
                }
            } else if let Some((number, value)) = self.request.step()? {
                if number == 1 && enters(offset_u32(self.request.offset())) {
                    let resource_spans = self.request.message_of(number, value)?;
                    let around = &mut self.around;
                    (around.resource, around.resource_schema_url) = head(resource_spans.clone())?;
                    around.resource_offset = offset_u32(resource_spans.offset());
                    self.resource_spans = resource_spans;
                }
            } else {
                return Ok(None);
            }
        }
    }

    /// Ends the walk.
    #[cold]
    fn fail<T>(&mut self, error: crate::Error) -> Result<T> {
        *self = Self::new(&[]);
        Err(error)
    }
}

/// Field 1, the resource or scope, and field 3, the schema URL, which is written behind the spans.
fn head(mut fields: Fields<'_>) -> Result<(&[u8], &str)> {
    let mut message: Option<&[u8]> = None;
    let mut schema_url = "";
    while let Some((number, value)) = fields.step()? {
        match number {
            1 if message.is_some() => return Err(fields.repeated(number)),
            1 => message = Some(fields.bytes_of(number, value)?),
            3 => schema_url = fields.str_of(number, value)?,
            _ => {}
        }
    }
    Ok((message.unwrap_or(&[]), schema_url))
}
