//! What can go wrong, and what it costs.

use std::time::Duration;

/// A cause of slowness that can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// More requests than the engines take: they wait.
    QueueBurst,
    /// Long answers fill the KV cache: requests wait for room, or lose their place and are computed again.
    KvPreemption,
    /// Others' long prompts share steps with one's decoding.
    LongPrefill,
    /// A GPU of the replica is slowed by heat.
    ThermalThrottle,
    /// A GPU of the replica is slowed by an external power brake.
    PowerThrottle,
    /// A GPU of the replica reports an XID error, and the engine stands still for a while.
    Xid,
    /// The link between the GPUs of the replica is slow and makes errors.
    NvlinkSlow,
    /// The search for documents is slow.
    SlowRag,
    /// The client reads its answer slowly.
    SlowClient,
    /// The gateway holds requests back before it routes them.
    GatewayStall,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::QueueBurst,
        Self::KvPreemption,
        Self::LongPrefill,
        Self::ThermalThrottle,
        Self::PowerThrottle,
        Self::Xid,
        Self::NvlinkSlow,
        Self::SlowRag,
        Self::SlowClient,
        Self::GatewayStall,
    ];

    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueBurst => "queue_burst",
            Self::KvPreemption => "kv_preemption",
            Self::LongPrefill => "long_prefill",
            Self::ThermalThrottle => "thermal",
            Self::PowerThrottle => "power",
            Self::Xid => "xid",
            Self::NvlinkSlow => "nvlink",
            Self::SlowRag => "slow_rag",
            Self::SlowClient => "slow_client",
            Self::GatewayStall => "gateway_stall",
        }
    }
}

/// Something that is injected in a stretch of time, counted from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// From when.
    pub from: Duration,
    /// Until when.
    pub to: Duration,
}

/// What is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A cause of slowness; of those that concern an engine or its GPUs, on replica 0.
    Slow(Cause),
    /// The trace context does not reach the engine: its spans are traces of their own.
    ContextLost,
    /// The pod of replica 0 runs on the spare GPUs from the beginning of the stretch on, for good; the GPUs that it
    /// left belong to another pod then.
    PodMoved,
    /// The clock of the engines' hosts is ahead by two seconds.
    ClockAhead,
}

impl FaultKind {
    /// All of them: first those that make requests slow, then those that make it harder to say why.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let causes = Cause::ALL.into_iter().map(Self::Slow);
        causes
            .chain([Self::ContextLost, Self::PodMoved, Self::ClockAhead])
            .collect()
    }

    /// In snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slow(cause) => cause.as_str(),
            Self::ContextLost => "context_lost",
            Self::PodMoved => "pod_moved",
            Self::ClockAhead => "clock_ahead",
        }
    }
}

impl Fault {
    /// A cause of slowness in `from..to` seconds.
    #[must_use]
    pub const fn slow(cause: Cause, from: u64, to: u64) -> Self {
        Self {
            kind: FaultKind::Slow(cause),
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        }
    }

    /// Another kind in `from..to` seconds.
    #[must_use]
    pub const fn other(kind: FaultKind, from: u64, to: u64) -> Self {
        Self {
            kind,
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        }
    }
}

/// All faults of a run, asked by time since the beginning.
#[derive(Debug, Clone)]
pub(super) struct Faults(Vec<(FaultKind, u64, u64)>);

impl Faults {
    pub(super) fn new(faults: &[Fault], start_unix_nano: u64) -> Self {
        let at = |since: Duration| {
            start_unix_nano.saturating_add(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
        };
        Self(
            faults
                .iter()
                .map(|fault| (fault.kind, at(fault.from), at(fault.to)))
                .collect(),
        )
    }

    /// Does it go wrong at this moment?
    pub(super) fn is_on(&self, kind: FaultKind, at: u64) -> bool {
        self.end(kind, at).is_some()
    }

    pub(super) fn is_slow(&self, cause: Cause, at: u64) -> bool {
        self.is_on(FaultKind::Slow(cause), at)
    }

    /// When what is on at this moment ends.
    pub(super) fn end(&self, kind: FaultKind, at: u64) -> Option<u64> {
        let is_on =
            |(other, from, to): &&(FaultKind, u64, u64)| *other == kind && *from <= at && at < *to;
        self.0.iter().find(is_on).map(|(_, _, to)| *to)
    }

    /// Which of its kind is on at this moment, from 0 in the order of the configuration.
    pub(super) fn number(&self, kind: FaultKind, at: u64) -> Option<usize> {
        let mut same = self.0.iter().filter(|(other, ..)| *other == kind);
        same.position(|(_, from, to)| *from <= at && at < *to)
    }

    /// When it began first.
    pub(super) fn first(&self, kind: FaultKind) -> Option<u64> {
        self.0
            .iter()
            .filter(|(other, ..)| *other == kind)
            .map(|(_, from, _)| *from)
            .min()
    }
}

/// Time that a request lost, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delays([u64; Cause::ALL.len()]);

impl Delays {
    pub(super) fn add(&mut self, cause: Cause, nanos: u64) {
        self.0[cause as usize] += nanos;
    }

    /// Time that this cause cost, in nanoseconds.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// The cause that cost at least `least`, and at least twice as much as any other; `None` if there is no such one.
    #[must_use]
    pub fn dominant(&self, least: Duration) -> Option<Cause> {
        let mut causes = Cause::ALL;
        causes.sort_by_key(|cause| std::cmp::Reverse(self.of(*cause)));
        let (first, second) = (self.of(causes[0]), self.of(causes[1]));
        let is_clear = u128::from(first) >= least.as_nanos() && first / 2 >= second;
        is_clear.then_some(causes[0])
    }
}
