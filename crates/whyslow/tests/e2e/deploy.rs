//! The files of `deploy/`: they parse, and name only metrics, labels and columns that exist.
//!
//! What exists: `/metrics` of a running server, the captured scrapes of vLLM and dcgm-exporter, and what the rules record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Server, Site, capture};
use crate::slo::{scrape, site, write_config};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}

fn read(path: &str) -> String {
    let path = deploy(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const RULES: [&str; 3] = ["slo.yml", "whyslow.yml", "engines.yml"];

/// Metrics and labels.
#[derive(Debug, Default)]
struct Names {
    metrics: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Names {
    /// Those of a page of text.
    fn of_page(&mut self, page: &str) {
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let (name, labels) = line.split_at(end);
            self.metrics.insert(name.to_owned());
            let labels = labels
                .split("=\"")
                .map(|before| before.rsplit(['{', ',']).next());
            self.labels.extend(labels.flatten().map(str::to_owned));
        }
    }

    /// Those that an expression of `PromQL` names; functions are checked.
    fn of_expression(&mut self, expression: &str) {
        const LISTS: [&str; 6] = [
            "by",
            "without",
            "on",
            "ignoring",
            "group_left",
            "group_right",
        ];
        const FUNCTIONS: [&str; 12] = [
            "sum",
            "max",
            "min",
            "rate",
            "increase",
            "changes",
            "deriv",
            "floor",
            "min_over_time",
            "histogram_quantile",
            "label_values",
            "avg",
        ];
        const WORDS: [&str; 4] = ["and", "or", "unless", "offset"];
        let mut rest = expression;
        while let Some(c) = rest.chars().next() {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            if c == '{' || c == '[' {
                let end = if c == '{' { '}' } else { ']' };
                let (inside, behind) = rest.split_once(end).unwrap();
                if c == '{' {
                    self.of_matchers(inside.trim_start_matches('{'));
                }
                rest = behind;
            } else if is_name(c) {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let (name, behind) = rest.split_at(end);
                rest = behind.trim_start();
                if LISTS.contains(&name) {
                    let (inside, behind) = rest.strip_prefix('(').unwrap().split_once(')').unwrap();
                    let labels = inside.split(',').map(|label| label.trim().to_owned());
                    self.labels.extend(labels);
                    rest = behind;
                } else if rest.starts_with('(') && !WORDS.contains(&name) {
                    assert!(
                        FUNCTIONS.contains(&name),
                        "`{name}` is no known function: {expression}"
                    );
                } else if !c.is_ascii_digit()
                    && !WORDS.contains(&name)
                    && !FUNCTIONS.contains(&name)
                {
                    self.metrics.insert(name.to_owned());
                }
            } else {
                assert!("()+-*/<>=,. \n%".contains(c), "`{c}` in {expression}");
                rest = rest.strip_prefix(c).unwrap();
            }
        }
    }

    fn of_matchers(&mut self, matchers: &str) {
        // Values stand in quotes; between them, names with their operators.
        for name in matchers.split('"').step_by(2) {
            let name = name.trim_matches([',', ' ', '=', '!', '~']);
            if !name.is_empty() {
                self.labels.insert(name.to_owned());
            }
        }
    }
}

/// What a server and the captured exporters show.
fn known(server: &Server) -> Names {
    let mut known = Names::default();
    let (_, page) = scrape(server, "text/plain");
    known.of_page(&String::from_utf8(page).unwrap());
    for folder in ["vllm-metrics", "dcgm"] {
        let scrapes = loadgen::capture::scrapes(&capture("real-chain").join(folder)).unwrap();
        for scraped in scrapes.into_iter().take(3) {
            known.of_page(std::str::from_utf8(&scraped.text).unwrap());
        }
    }
    // Prometheus's own.
    known.metrics.insert("up".to_owned());
    known
        .labels
        .extend(["instance", "job", "le"].map(str::to_owned));
    known
}

fn rules() -> Vec<Value> {
    let files = RULES.map(|name| yaml(&format!("prometheus/rules/{name}")));
    let groups = files
        .iter()
        .flat_map(|file| file["groups"].as_array().unwrap());
    groups
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// Every target of the dashboard.
fn targets(dashboard: &Value) -> Vec<Value> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    targets.flatten().cloned().collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("grafana/whyslow.json")).unwrap()
}

/// With a scraper, whose metrics the rules name.
fn scraping_server(site: &Site) -> Server {
    let path = write_config(site);
    let yaml = std::fs::read_to_string(&path).unwrap();
    let yaml = yaml.replacen(
        "receivers:\n",
        "receivers:\n  dcgm: {scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: ['127.0.0.1:1']}]}\n",
        1,
    );
    let yaml = yaml + "    metrics: {receivers: [dcgm], exporters: [lake]}\n";
    std::fs::write(&path, yaml).unwrap();
    Server::start(&path)
}

#[test]
fn rules_and_panels_name_only_metrics_and_labels_that_exist() {
    let site = site();
    let server = scraping_server(&site);
    server.replay(&capture("real-chain"), "grpc", false);
    server.await_metric("lake_calls_waiting 0");
    server.await_decisions();
    server.says("a scrape failed");
    let mut known = known(&server);
    let mut named = Names::default();
    for rule in rules() {
        named.of_expression(rule["expr"].as_str().unwrap());
        if let Some(record) = rule["record"].as_str() {
            known.metrics.insert(record.to_owned());
            continue;
        }
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(matches!(severity, "page" | "ticket"), "{rule}");
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str().unwrap();
            let labels = text.split("$labels.").skip(1);
            let labels = labels.map(|rest| rest.split([' ', '}', '.', '|']).next().unwrap());
            named.labels.extend(labels.map(str::to_owned));
        }
    }
    let mut n_panels = 0;
    for target in targets(&dashboard()) {
        if let Some(expression) = target["expr"].as_str() {
            named.of_expression(&expression.replace("$__rate_interval", "5m"));
            n_panels += 1;
            let legend = target["legendFormat"].as_str().unwrap();
            let labels = legend
                .split("{{")
                .skip(1)
                .map(|rest| rest.split("}}").next().unwrap());
            named.labels.extend(labels.map(str::to_owned));
        }
    }
    assert!(n_panels > 20, "{n_panels}");
    let metrics: Vec<_> = named.metrics.difference(&known.metrics).collect();
    let labels: Vec<_> = named.labels.difference(&known.labels).collect();
    assert!(
        metrics.is_empty() && labels.is_empty(),
        "not there: {metrics:?}, labels {labels:?}"
    );
    statements_run(&server);
}

/// Statements of the dashboard as Grafana sends them, and those of `deploy/sql`.
fn statements_run(server: &Server) {
    let begin_and_end = "BETWEEN '2026-01-01T00:00:00Z' AND '2027-12-31T00:00:00Z'";
    let mut n_rows = Vec::new();
    let dashboard = dashboard();
    for target in targets(&dashboard) {
        let Some(sql) = target["rawSql"].as_str() else {
            continue;
        };
        let mut sql = sql.to_owned();
        while let Some((before, rest)) = sql.split_once("$__timeFilter(") {
            let (column, behind) = rest.split_once(')').unwrap();
            sql = format!("{before}{column} {begin_and_end}{behind}");
        }
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            if let Some(value) = variable["current"]["value"].as_str() {
                let name = variable["name"].as_str().unwrap();
                sql = sql.replace(&format!("${name}"), value);
            }
        }
        assert!(!sql.contains('$'), "{sql}");
        n_rows.push(server.sql(&sql).len());
    }
    assert_eq!(n_rows.len(), 4, "statements");
    assert!(n_rows.iter().filter(|n| **n > 0).count() >= 2, "{n_rows:?}");

    // As if it were the hour of the captured traffic.
    let newest = server.sql("SELECT max(end_time) FROM requests")[0][0].clone();
    let newest = format!("TIMESTAMP '{}'", newest.as_str().unwrap());
    let sql = read("sql/burn_rate.sql").replace("now()", &newest);
    // The command line takes a text that begins with `--` for an argument.
    let (_, sql) = sql.split_once("WITH ").unwrap();
    let rows = server.sql(&format!("WITH {sql}"));
    let row = |over: &str, measure: &str| {
        let mut rows = rows
            .iter()
            .filter(|row| row[1] == measure && row[2] == over);
        rows.next()
            .unwrap_or_else(|| panic!("no {measure} over {over}: {rows:?}"))
            .clone()
    };
    let counted = "SELECT count(*) FROM requests WHERE NOT wrapper AND NOT superseded AND outcome = 'ok' AND position = 'engine'";
    assert_eq!(row("30d", "e2e")[3], server.sql(counted)[0][0]);
    let failed = "SELECT avg(CASE WHEN outcome = 'ok' THEN 0.0 ELSE 1.0 END) FROM requests \
                  WHERE NOT wrapper AND NOT superseded AND outcome <> 'cancelled'";
    let errors = row("30d", "errors");
    let share = server.sql(failed)[0][0].as_f64().unwrap();
    assert!(
        (errors[4].as_f64().unwrap() - share).abs() < 1e-9,
        "{errors:?}"
    );
    assert!(
        (errors[5].as_f64().unwrap() - share / 0.001).abs() < 1e-6,
        "{errors:?}"
    );
}

#[test]
fn the_example_of_prometheus_reads_the_rules_and_takes_native_histograms() {
    let prometheus = yaml("prometheus/prometheus.yml");
    assert_eq!(prometheus["rule_files"][0], "rules/*.yml");
    let found = std::fs::read_dir(deploy("prometheus/rules")).unwrap();
    let mut found: Vec<String> = found
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut known = RULES.map(str::to_owned);
    known.sort();
    assert_eq!(found, known);
    let job = &prometheus["scrape_configs"][0];
    assert_eq!(job["job_name"], "whyslow");
    assert_eq!(job["scrape_protocols"][0], "PrometheusProto");
    let port = pipelines_port();
    let target = job["static_configs"][0]["targets"][0].as_str().unwrap();
    assert!(
        target.ends_with(&port),
        "{target} is not where {port} answers"
    );
}

/// Of the query listener in the built-in default.
fn pipelines_port() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/local.yaml");
    let local: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let endpoint = local["extensions"]["query"]["endpoint"].as_str().unwrap();
    endpoint.rsplit(':').next().unwrap().to_owned()
}
