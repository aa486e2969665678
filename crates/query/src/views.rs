//! The views of `storage/views`, each a documented `.sql` file.
//!
//! The head of a file is made of comment lines: `-- Question:` with the question it answers,
//! `-- Columns:` with one `--   name (unit): meaning` line each, and `-- Example:` with a statement.

/// One view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// Name in SQL, and of its file.
    pub name: &'static str,
    /// The whole file: head and query.
    pub sql: &'static str,
}

/// Every view. A view may use tables and the views before it.
pub const VIEWS: &[View] = &[
    View {
        name: "slow_requests",
        sql: include_str!("../../../storage/views/slow_requests.sql"),
    },
    View {
        name: "request_phases",
        sql: include_str!("../../../storage/views/request_phases.sql"),
    },
    View {
        name: "operations",
        sql: include_str!("../../../storage/views/operations.sql"),
    },
    View {
        name: "request_links",
        sql: include_str!("../../../storage/views/request_links.sql"),
    },
    View {
        name: "trace_timeline",
        sql: include_str!("../../../storage/views/trace_timeline.sql"),
    },
    View {
        name: "gpu_evidence",
        sql: include_str!("../../../storage/views/gpu_evidence.sql"),
    },
    View {
        name: "placement_intervals",
        sql: include_str!("../../../storage/views/placement_intervals.sql"),
    },
    View {
        name: "request_gpu_time",
        sql: include_str!("../../../storage/views/request_gpu_time.sql"),
    },
    View {
        name: "gpu_timeline",
        sql: include_str!("../../../storage/views/gpu_timeline.sql"),
    },
    View {
        name: "engine_timeline",
        sql: include_str!("../../../storage/views/engine_timeline.sql"),
    },
    View {
        name: "slo_compliance",
        sql: include_str!("../../../storage/views/slo_compliance.sql"),
    },
    View {
        name: "traffic_mix",
        sql: include_str!("../../../storage/views/traffic_mix.sql"),
    },
    View {
        name: "prefix_cache_drops",
        sql: include_str!("../../../storage/views/prefix_cache_drops.sql"),
    },
    View {
        name: "slowest_pods",
        sql: include_str!("../../../storage/views/slowest_pods.sql"),
    },
    View {
        name: "slowest_gpus",
        sql: include_str!("../../../storage/views/slowest_gpus.sql"),
    },
    View {
        name: "co_tenants",
        sql: include_str!("../../../storage/views/co_tenants.sql"),
    },
    View {
        name: "orphans",
        sql: include_str!("../../../storage/views/orphans.sql"),
    },
    View {
        name: "errors",
        sql: include_str!("../../../storage/views/errors.sql"),
    },
];

/// A column as the head of a view's file documents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewColumn {
    /// Name in SQL.
    pub name: &'static str,
    /// Unit, where there is one.
    pub unit: Option<&'static str>,
    /// Meaning.
    pub doc: &'static str,
}

impl View {
    /// The question that the view answers, as its head states it.
    pub fn question(&self) -> String {
        let lines = self.section("Question:");
        lines.join(" ")
    }

    /// The columns, as the head lists them.
    pub fn columns(&self) -> Vec<ViewColumn> {
        self.section("Columns:")
            .into_iter()
            .filter_map(column)
            .collect()
    }

    /// A statement to try.
    pub fn example(&self) -> String {
        self.section("Example:").join("\n")
    }

    /// Lines of one section of the head, without the comment marks.
    fn section(&self, title: &str) -> Vec<&'static str> {
        let mut lines = Vec::new();
        let mut is_inside = false;
        for line in self.sql.lines().map_while(|line| line.strip_prefix("--")) {
            let text = line.trim();
            if let Some(rest) = text.strip_prefix(title) {
                is_inside = true;
                lines.extend(Some(rest.trim()).filter(|rest| !rest.is_empty()));
            } else if ["Question:", "Columns:", "Example:", "Notes:"]
                .iter()
                .any(|other| text.starts_with(other))
            {
                is_inside = false;
            } else if is_inside && !text.is_empty() {
                lines.push(text);
            }
        }
        lines
    }
}

fn column(line: &'static str) -> Option<ViewColumn> {
    let (head, doc) = line.split_once(": ")?;
    let (name, unit) = match head.split_once(" (") {
        Some((name, unit)) => (name, unit.strip_suffix(')')),
        None => (head, None),
    };
    Some(ViewColumn { name, unit, doc })
}
