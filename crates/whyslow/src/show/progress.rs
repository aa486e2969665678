//! Progress of long work on standard error: a bar on a terminal, a line every tenth of the way
//! elsewhere.

use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressStyle};

/// Work of a known size.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    noun: &'static str,
    n_total: u64,
    n_done: u64,
    n_tenths: u64,
}

impl Progress {
    /// Begins; the noun is in the plural, such as `requests`.
    pub(crate) fn new(n_total: u64, noun: &'static str) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let template = "[{bar:40}] {human_pos}/{human_len} {prefix} {elapsed_precise} {msg}";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_invalid| ProgressStyle::default_bar())
                .progress_chars("#> ");
            ProgressBar::new(n_total)
                .with_style(style)
                .with_prefix(noun)
        });
        Self {
            bar,
            noun,
            n_total,
            n_done: 0,
            n_tenths: 0,
        }
    }

    /// One more is done; `note` stands at the end of the bar.
    pub(crate) fn advance(&mut self, note: &str) {
        self.n_done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(note.to_owned());
            bar.inc(1);
            return;
        }
        let n_tenths = tenths(self.n_done, self.n_total);
        if n_tenths > self.n_tenths {
            self.n_tenths = n_tenths;
            let comma = if note.is_empty() { "" } else { ", " };
            self.line(&format!(
                "{}/{} {}{comma}{note}",
                self.n_done, self.n_total, self.noun
            ));
        }
    }

    /// Says something that stays, above the bar.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => super::print_error(&format!("{text}\n")),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn tenths(n_done: u64, n_total: u64) -> u64 {
    n_done.saturating_mul(10).checked_div(n_total).unwrap_or(10)
}

#[cfg(test)]
mod tests {
    use super::{Progress, tenths};

    #[test]
    fn a_line_is_due_every_tenth_and_at_the_end() {
        let due = |n_total| {
            let mut before = 0;
            (1..=n_total)
                .filter(|n_done| {
                    let now = tenths(*n_done, n_total);
                    let is_due = now > before;
                    before = now;
                    is_due
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(due(3), [1, 2, 3]);
        assert_eq!(due(91).len(), 10);
        assert_eq!(due(91).last(), Some(&91));
        assert_eq!(tenths(1, 0), 10);
    }

    #[test]
    fn more_work_than_announced_does_no_harm() {
        let mut progress = Progress::new(0, "requests");
        progress.advance("");
        progress.finish();
    }
}
