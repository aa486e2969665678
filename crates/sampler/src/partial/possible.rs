//! Every verdict that a policy, and every decision that all of them, can come to.

use std::ops::BitOrAssign;

use super::{Bounds, Facts, Said, Why};
use crate::atoms::AtomSet;
use crate::decision::Decision;
use crate::pending::Trace;
use crate::services::Services;
use crate::verdict::{Composite, Evidence, Failed, Invert, Policies, Test, Verdict};

/// What policies look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bounds: Bounds,
    pub(super) facts: &'a Facts,
    pub(super) services: Option<&'a [String]>,
    /// For tests that look at no span of it.
    pub(super) stand_in: &'a Trace,
    pub(super) names: &'a Services,
    /// Budgets are taken from, and the randomness is that of the trace id; else what they say is open.
    pub(super) is_likely: bool,
    /// The policies have a say.
    pub(super) is_asked: bool,
}

/// A set of verdicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    bits: u8,
    /// Of a policy at the top: it is asked, as far as is known.
    pub(super) is_asked: bool,
}

/// What the policies say together.
#[derive(Debug)]
pub(super) struct Possible {
    /// In file order.
    pub(super) said: Vec<Outcomes>,
    /// The policy that is credited, if it is known.
    pub(super) policy: Option<usize>,
    may_be_sampled: bool,
    may_be_not_sampled: bool,
    may_be_dropped: bool,
}

/// What a test looks at, besides what is known of every trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Inputs {
    pub(super) atoms: AtomSet,
    pub(super) has_budget: bool,
    /// What else may not be known, for people, and why not.
    pub(super) others: Vec<(&'static str, Why)>,
}

const SAID: [Said; 6] = [
    Said::Sampled,
    Said::NotSampled,
    Said::Dropped,
    Said::InvertSampled,
    Said::InvertNotSampled,
    Said::Failed,
];

/// What matches, for a policy around it.
const YES: [Said; 3] = [Said::Sampled, Said::InvertSampled, Said::Dropped];

impl Outcomes {
    fn one(said: Said) -> Self {
        Self {
            bits: 1 << said as u8,
            is_asked: false,
        }
    }

    fn of_match(is_match: bool) -> Self {
        Self::one(if is_match {
            Said::Sampled
        } else {
            Said::NotSampled
        })
    }

    fn of_verdict(verdict: Result<Verdict, Failed>) -> Self {
        Self::one(match verdict {
            Ok(Verdict::Sampled) => Said::Sampled,
            Ok(Verdict::NotSampled) => Said::NotSampled,
            Ok(Verdict::Dropped) => Said::Dropped,
            Ok(Verdict::InvertSampled) => Said::InvertSampled,
            Ok(Verdict::InvertNotSampled) => Said::InvertNotSampled,
            Err(Failed) => Said::Failed,
        })
    }

    /// Of a condition with these bounds.
    fn of_bounds(sure: bool, possible: bool) -> Self {
        let mut outcomes = Self::default();
        if possible || sure {
            outcomes |= Self::of_match(true);
        }
        if !sure {
            outcomes |= Self::of_match(false);
        }
        outcomes
    }

    fn has(self, said: Said) -> bool {
        self.bits & Self::one(said).bits != 0
    }

    fn has_any(self, of: &[Said]) -> bool {
        of.iter().any(|said| self.has(*said))
    }

    fn is_surely(self, said: Said) -> bool {
        self.bits == Self::one(said).bits
    }

    fn iter(self) -> impl Iterator<Item = Said> {
        SAID.into_iter().filter(move |said| self.has(*said))
    }

    /// The verdict, if only one is possible.
    pub(super) fn only(self) -> Option<Said> {
        let mut said = self.iter();
        said.next().filter(|_| said.next().is_none())
    }

    /// Each verdict turned into another.
    fn map(self, change: impl Fn(Said) -> Said) -> Self {
        let mut changed = Self::default();
        for said in self.iter() {
            changed |= Self::one(change(said));
        }
        changed
    }
}

impl BitOrAssign for Outcomes {
    fn bitor_assign(&mut self, other: Self) {
        self.bits |= other.bits;
    }
}

impl Possible {
    /// The decision, if only one is possible.
    pub(super) fn decision(&self) -> Option<Decision> {
        let decisions = [
            (Decision::Sampled, self.may_be_sampled),
            (Decision::NotSampled, self.may_be_not_sampled),
            (Decision::Dropped, self.may_be_dropped),
        ];
        let mut possible = decisions
            .into_iter()
            .filter(|(_, is_possible)| *is_possible);
        let (decision, _) = possible.next()?;
        possible.next().is_none().then_some(decision)
    }
}

/// How far the asking gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Surely,
    Perhaps,
    Not,
}

/// What has been said so far.
#[derive(Debug)]
struct Tally {
    possible: Possible,
    reach: Reach,
    /// Policies that may be credited for sampling, and for an inverted match, in the order of asking,
    /// and whether each says so for certain.
    sampled: Vec<(usize, bool)>,
    inverted: Vec<(usize, bool)>,
    /// Whether such a verdict is possible, and whether it is certain.
    veto: (bool, bool),
    not_sampled: (bool, bool),
    is_dropped: bool,
}

impl Policies {
    /// Asks every policy about one trace, as [`Policies::judge`] does.
    pub(super) fn possible(&mut self, view: &View<'_>) -> Possible {
        let mut tally = Tally::new(self.tests.len(), view.is_asked);
        for position in &self.order {
            let takes_budget = view.is_likely && tally.reach == Reach::Surely;
            let mut said = self.tests[*position].possible(view, takes_budget);
            said.is_asked = tally.reach != Reach::Not;
            tally.possible.said[*position] = said;
            if said.is_asked {
                tally.note(*position, said, self.sample_on_first_match);
            }
        }
        tally.finish()
    }
}

impl Tally {
    fn new(n_policies: usize, is_asked: bool) -> Self {
        Self {
            possible: Possible {
                said: vec![Outcomes::default(); n_policies],
                policy: None,
                may_be_sampled: false,
                may_be_not_sampled: false,
                may_be_dropped: false,
            },
            reach: if is_asked { Reach::Surely } else { Reach::Not },
            sampled: Vec::new(),
            inverted: Vec::new(),
            veto: (false, false),
            not_sampled: (false, false),
            is_dropped: false,
        }
    }

    fn note(&mut self, policy: usize, said: Outcomes, sample_on_first_match: bool) {
        if said.has(Said::Dropped) {
            // `drop` policies are asked first: nothing before has kept the trace.
            let is_first = !self.possible.may_be_dropped;
            self.possible.may_be_dropped = true;
            self.is_dropped = said.is_surely(Said::Dropped);
            self.possible.policy = Some(policy).filter(|_| is_first && self.is_dropped);
            self.reach = if self.is_dropped {
                Reach::Not
            } else {
                Reach::Perhaps
            };
        }
        // What is not reached because a policy has sampled is sampled all the same.
        if said.has(Said::Sampled) {
            self.sampled.push((policy, said.is_surely(Said::Sampled)));
        }
        if said.has(Said::InvertSampled) {
            self.inverted
                .push((policy, said.is_surely(Said::InvertSampled)));
        }
        let is_reached = self.reach == Reach::Surely;
        self.veto.0 |= said.has(Said::InvertNotSampled);
        self.veto.1 |= is_reached && said.is_surely(Said::InvertNotSampled);
        self.not_sampled.0 |= said.has(Said::NotSampled);
        self.not_sampled.1 |= is_reached && said.is_surely(Said::NotSampled);
        if sample_on_first_match && said.has(Said::Sampled) {
            self.reach = if said.is_surely(Said::Sampled) {
                Reach::Not
            } else {
                Reach::Perhaps
            };
        }
    }

    fn finish(self) -> Possible {
        let Self {
            mut possible,
            sampled,
            inverted,
            veto,
            not_sampled,
            is_dropped,
            ..
        } = self;
        if is_dropped {
            return possible;
        }
        let is_certain = |of: &[(usize, bool)]| of.iter().any(|(_, is_certain)| *is_certain);
        let may_be_inverted = !inverted.is_empty() && !not_sampled.1;
        let is_inverted = is_certain(&inverted) && !not_sampled.0;
        possible.may_be_sampled = !veto.1 && (!sampled.is_empty() || may_be_inverted);
        possible.may_be_not_sampled = veto.0 || !(is_certain(&sampled) || is_inverted);
        let credited = match (sampled.first(), inverted.first()) {
            (Some((policy, true)), _) => Some(*policy),
            (None, Some((policy, true))) if may_be_inverted => Some(*policy),
            // The only one that can be credited, if the trace is kept at all.
            (Some((policy, false)), None) if sampled.len() == 1 => Some(*policy),
            _ => None,
        };
        if possible.may_be_sampled && !possible.may_be_dropped {
            possible.policy = credited;
        }
        possible
    }
}

impl Test {
    /// Every verdict that is possible. Budgets are taken from where `takes_budget` says so and the
    /// test is reached for certain.
    fn possible(&mut self, view: &View<'_>, takes_budget: bool) -> Outcomes {
        let Bounds { sure, possible } = view.bounds;
        match self {
            Self::Always
            | Self::Latency { .. }
            | Self::Probabilistic { .. }
            | Self::SpanCount { .. } => Outcomes::of_match(self.holds(&view.evidence())),
            Self::AnyOf { atoms, invert } => {
                let met = Outcomes::of_bounds(sure.intersects(*atoms), possible.intersects(*atoms));
                match invert {
                    Invert::No => met,
                    Invert::Negation => met.map(negation),
                    Invert::OwnVerdict => met.map(|said| {
                        if said == Said::Sampled {
                            Said::InvertNotSampled
                        } else {
                            Said::InvertSampled
                        }
                    }),
                }
            }
            Self::Ottl(outcome) => {
                let is_met = sure.intersects(outcome.matched);
                let mut met = Outcomes::of_bounds(is_met, possible.intersects(outcome.matched));
                let may_fail = possible.intersects(outcome.failed);
                if may_fail && (!is_met || outcome.first_wins) {
                    met |= Outcomes::one(Said::Failed);
                }
                if sure.intersects(outcome.failed) {
                    met.bits &= !Outcomes::one(Said::NotSampled).bits;
                }
                met
            }
            Self::SpanLimit(_) | Self::ByteLimit(_) if takes_budget => {
                Outcomes::of_verdict(self.verdict(&view.evidence()))
            }
            Self::SpanLimit(_) | Self::ByteLimit(_) => Outcomes::of_bounds(false, true),
            Self::Passing(_) if view.is_likely => Outcomes::of_match(self.holds(&view.evidence())),
            Self::Passing(_) | Self::Adaptive(_) => Outcomes::of_bounds(false, true),
            Self::Sql(condition) => match view.row(condition) {
                Some(row) => Outcomes::of_match(condition.holds(&row)),
                None => Outcomes::of_bounds(false, true),
            },
            Self::AllOf(tests) => Self::all_possible(tests, view, takes_budget),
            Self::Drop(tests) => {
                let all = Self::all_possible(tests, view, takes_budget);
                all.map(|said| {
                    if said == Said::Sampled {
                        Said::Dropped
                    } else {
                        said
                    }
                })
            }
            Self::Not(test) => test.possible(view, takes_budget).map(negation),
            Self::Composite(composite) => composite.possible(view, takes_budget),
        }
    }

    /// In order, up to the first that does not match.
    fn all_possible(tests: &mut [Self], view: &View<'_>, takes_budget: bool) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for test in tests {
            let is_reached = outcomes == Outcomes::default();
            let said = test.possible(view, takes_budget && is_reached);
            if said.has(Said::Failed) {
                outcomes |= Outcomes::one(Said::Failed);
            }
            if said.has_any(&[Said::NotSampled, Said::InvertNotSampled]) {
                outcomes |= Outcomes::one(Said::NotSampled);
            }
            if !said.has_any(&YES) {
                return outcomes;
            }
        }
        outcomes |= Outcomes::one(Said::Sampled);
        outcomes
    }

    /// What it looks at.
    pub(super) fn inputs(&self) -> Inputs {
        let of = |what, why| Inputs {
            others: vec![(what, why)],
            ..Inputs::default()
        };
        match self {
            Self::Always
            | Self::Latency { .. }
            | Self::Probabilistic { .. }
            | Self::SpanCount { .. } => Inputs::default(),
            Self::AnyOf { atoms, .. } => Inputs {
                atoms: *atoms,
                ..Inputs::default()
            },
            Self::Ottl(outcome) => {
                let mut atoms = outcome.matched;
                atoms |= outcome.failed;
                Inputs {
                    atoms,
                    ..Inputs::default()
                }
            }
            Self::SpanLimit(_) | Self::ByteLimit(_) => Inputs {
                has_budget: true,
                ..Inputs::default()
            },
            Self::Passing(_) => of("`th` and `rv` of its tracestate", Why::Restated),
            Self::Adaptive(_) => of("rates", Why::Rates),
            Self::Sql(condition) if condition.reads_services() => of("services", Why::NotStored),
            Self::Sql(_) => Inputs::default(),
            Self::AllOf(tests) | Self::Drop(tests) => Inputs::of_all(tests.iter()),
            Self::Not(test) => test.inputs(),
            Self::Composite(composite) => Inputs {
                has_budget: true,
                ..Inputs::of_all(composite.subs.iter().map(|sub| &sub.test))
            },
        }
    }
}

impl Inputs {
    fn of_all<'a>(tests: impl Iterator<Item = &'a Test>) -> Self {
        let mut all = Self::default();
        for inputs in tests.map(Test::inputs) {
            all.atoms |= inputs.atoms;
            all.has_budget |= inputs.has_budget;
            all.others.extend(inputs.others);
        }
        all
    }
}

/// As `not` and `invert_match` turn it.
fn negation(said: Said) -> Said {
    match said {
        Said::Sampled => Said::NotSampled,
        Said::NotSampled => Said::Sampled,
        Said::Dropped | Said::InvertSampled | Said::InvertNotSampled | Said::Failed => said,
    }
}

impl Composite {
    fn possible(&mut self, view: &View<'_>, takes_budget: bool) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for idx in 0..self.subs.len() {
            let is_reached = takes_budget && outcomes == Outcomes::default();
            let said = self.subs[idx].test.possible(view, is_reached);
            if said.has(Said::Failed) {
                outcomes |= Outcomes::one(Said::Failed);
            }
            // Here a sub-policy that drops does not match.
            let may_match = said.has_any(&[Said::Sampled, Said::InvertSampled]);
            let is_only = said
                .iter()
                .all(|said| matches!(said, Said::Sampled | Said::InvertSampled));
            if may_match && is_only && is_reached {
                outcomes |= Outcomes::of_match(self.take(idx, &view.evidence()));
                return outcomes;
            }
            if may_match {
                outcomes |= Outcomes::of_bounds(false, true);
            }
            if !said.has_any(&[Said::NotSampled, Said::InvertNotSampled, Said::Dropped]) {
                return outcomes;
            }
        }
        outcomes |= Outcomes::of_match(false);
        outcomes
    }
}

impl View<'_> {
    /// Without conditions on spans: for tests that look at none.
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            trace_id: &self.facts.trace_id,
            atoms: AtomSet::EMPTY,
            duration_ns: self.facts.duration_ns,
            n_spans: self.facts.n_spans,
            n_bytes: self.facts.n_bytes,
            now_unix_nano: self.facts.decided_unix_nano,
            trace: self.stand_in,
            services: self.names,
        }
    }
}
