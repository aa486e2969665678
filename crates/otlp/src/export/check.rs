//! Checks a trace export request in one pass, the spans by hand: this runs for every span.

use crate::{
    attribute,
    error::Result,
    export::{Checked, Limits, Rejection, items, judge},
    schema::{self, Message},
    span::{Identity, key},
    wire::Fields,
};

/// Checks a whole `ExportTraceServiceRequest`.
pub(super) fn traces(body: &[u8], limits: &Limits) -> Result<Checked> {
    let mut pass = Pass {
        limits,
        depth_max: limits.depth(),
        tally: Tally::default(),
    };
    let mut fields = Fields::new(body);
    while let Some((number, value)) = fields.step()? {
        if number == 1 {
            pass.resource_spans(fields.message_of(number, value)?)?;
        }
    }
    Ok(pass.tally.into_checked())
}

struct Pass<'l> {
    limits: &'l Limits,
    depth_max: u32,
    tally: Tally,
}

impl Pass<'_> {
    fn resource_spans(&mut self, mut fields: Fields<'_>) -> Result<()> {
        let mut has_resource = false;
        while let Some((number, value)) = fields.step()? {
            match number {
                1 if has_resource => return Err(fields.repeated(number)),
                1 => {
                    has_resource = true;
                    self.message(fields.message_of(number, value)?, &schema::RESOURCE)?;
                }
                2 => self.scope_spans(fields.message_of(number, value)?)?,
                3 => fields.check_str(number, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn scope_spans(&mut self, mut fields: Fields<'_>) -> Result<()> {
        let mut has_scope = false;
        while let Some((number, value)) = fields.step()? {
            match number {
                1 if has_scope => return Err(fields.repeated(number)),
                1 => {
                    has_scope = true;
                    self.message(fields.message_of(number, value)?, &schema::SCOPE)?;
                }
                2 => self.span(fields.message_of(number, value)?)?,
                3 => fields.check_str(number, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn span(&mut self, mut fields: Fields<'_>) -> Result<()> {
        let mut identity = Identity::default();
        while let Some(key) = fields.key()? {
            match key {
                key::ATTRIBUTE => {
                    let attribute = fields.message()?;
                    attribute::check_key_value(attribute, 1, self.depth_max)?;
                    let may_be_scalar = self.depth_max > 0;
                    fields.skip_run_while(key::ATTRIBUTE, |attribute| {
                        may_be_scalar && attribute::is_usual(attribute)
                    });
                }
                key::TRACE_ID => identity.trace_id = fields.delimited()?,
                key::SPAN_ID => identity.span_id = fields.delimited()?,
                key::TRACE_STATE => fields.check_text(3)?,
                key::PARENT_SPAN_ID => {
                    fields.delimited()?;
                }
                key::NAME => fields.check_text(5)?,
                key::KIND | key::DROPPED_ATTRIBUTES | key::DROPPED_EVENTS | key::DROPPED_LINKS => {
                    fields.varint()?;
                }
                key::START => identity.start_time_unix_nano = fields.fixed64()?,
                key::END => identity.end_time_unix_nano = fields.fixed64()?,
                key::EVENT => self.message(fields.message()?, &schema::EVENT)?,
                key::LINK => self.message(fields.message()?, &schema::LINK)?,
                key::STATUS => self.message(fields.message()?, &schema::STATUS)?,
                key::FLAGS => {
                    fields.fixed32()?;
                }
                other => fields.skip_other(other, key::ALL)?,
            }
        }
        self.tally.count(judge(&identity, self.limits), &identity);
        Ok(())
    }

    #[inline(never)]
    fn message(&self, fields: Fields<'_>, schema: &Message) -> Result<()> {
        items::message(fields, schema, self.depth_max).map(drop)
    }
}

/// Spans counted by what becomes of them.
#[derive(Debug, Default)]
struct Tally {
    checked: Checked,
    /// Zero-based number of the first rejected span in the request, and what is wrong with it.
    first: Option<(u64, String)>,
}

impl Tally {
    #[inline]
    fn count(&mut self, rejection: Option<Rejection>, identity: &Identity<'_>) {
        match rejection {
            None => self.checked.n_items = self.checked.n_items.saturating_add(1),
            Some(rejection) => self.reject(rejection, identity),
        }
    }

    #[cold]
    fn reject(&mut self, rejection: Rejection, identity: &Identity<'_>) {
        let checked = &mut self.checked;
        if self.first.is_none() {
            let span_idx = checked.n_items.saturating_add(checked.n_rejected);
            self.first = Some((span_idx, describe(rejection, identity)));
        }
        checked.n_rejected = checked.n_rejected.saturating_add(1);
        let reason = match rejection {
            Rejection::TraceId | Rejection::SpanId => &mut checked.n_invalid_ids,
            Rejection::StartOutsideWindow | Rejection::EndOutsideWindow => {
                &mut checked.n_outside_window
            }
        };
        *reason = reason.saturating_add(1);
    }

    fn into_checked(self) -> Checked {
        let mut checked = self.checked;
        checked.message = self.first.map(|(span_idx, first)| {
            format!(
                "{} spans rejected ({} with an invalid id, {} outside the accepted time); the first \
                 is span {span_idx} (from 0): {first}",
                checked.n_rejected, checked.n_invalid_ids, checked.n_outside_window,
            )
        });
        checked
    }
}

fn describe(rejection: Rejection, identity: &Identity<'_>) -> String {
    let id = |name: &str, id: &[u8], n_bytes: usize| match id.len() {
        0 => format!("{name} is missing"),
        len if len == n_bytes => format!("{name} is all zero"),
        len => format!("{name} has {len} bytes, not {n_bytes}"),
    };
    match rejection {
        Rejection::TraceId => id("trace id", identity.trace_id, 16),
        Rejection::SpanId => id("span id", identity.span_id, 8),
        Rejection::StartOutsideWindow => {
            format!(
                "start {} ns is too old or too new",
                identity.start_time_unix_nano
            )
        }
        Rejection::EndOutsideWindow => {
            format!(
                "end {} ns is too old or too new",
                identity.end_time_unix_nano
            )
        }
    }
}
