//! What psql, DBeaver, JDBC's driver and Grafana ask before their user does: written after what they send, and answered.

use super::client::{connect, open};
use crate::tests::support::{config, fixture};

/// Statements, and a text that the answer must contain.
const PSQL: &[(&str, &str)] = &[
    // \d
    (
        "SELECT n.nspname as \"Schema\", c.relname as \"Name\",
           CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' END as \"Type\",
           pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\"
         FROM pg_catalog.pg_class c
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
         WHERE c.relkind IN ('r','p','v','m','S','f','')
           AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema'
           AND pg_catalog.pg_table_is_visible(c.oid)
         ORDER BY 1,2;",
        "public|slow_requests|view|reader",
    ),
    // \d requests
    (
        "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relname OPERATOR(pg_catalog.~) '^(requests)$' COLLATE pg_catalog.default
           AND pg_catalog.pg_table_is_visible(c.oid)
         ORDER BY 2, 3;",
        "|public|requests",
    ),
    (
        "SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity,
           c.relforcerowsecurity, false AS relhasoids, c.relispartition, '', c.reltablespace,
           CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END,
           c.relpersistence, c.relreplident, am.amname
         FROM pg_catalog.pg_class c
           LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid)
           LEFT JOIN pg_catalog.pg_am am ON (c.relam = am.oid)
         WHERE c.relname = 'requests';",
        "0|r|f|f|f|f|f|f|f||0|",
    ),
    (
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
           (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d
             WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
           a.attnotnull,
           (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t
             WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,
           a.attidentity, a.attgenerated
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid
         WHERE r.relname = 'requests' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;",
        "trace_id|text|NULL|",
    ),
    // \dt+
    (
        "SELECT c.relname as \"Name\", pg_catalog.pg_size_pretty(pg_catalog.pg_table_size(c.oid)) as \"Size\",
           pg_catalog.obj_description(c.oid, 'pg_class') as \"Description\"
         FROM pg_catalog.pg_class c WHERE c.relkind IN ('r','p','') ORDER BY 1;",
        "requests|NULL|NULL",
    ),
    // \l
    (
        "SELECT d.datname as \"Name\", pg_catalog.pg_get_userbyid(d.datdba) as \"Owner\",
           pg_catalog.pg_encoding_to_char(d.encoding) as \"Encoding\" FROM pg_catalog.pg_database d ORDER BY 1;",
        "whyslow|reader|UTF-8",
    ),
    // \dn
    (
        "SELECT n.nspname AS \"Name\", pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\"
         FROM pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1;",
        "public|reader",
    ),
    ("SELECT version()", "PostgreSQL 16.6"),
    ("SELECT current_user, current_database(), current_schema()", "reader|whyslow|public"),
];

const DBEAVER: &[(&str, &str)] = &[
    ("SET extra_float_digits = 3", "SET"),
    ("SET application_name = 'DBeaver 25.1 - Main <whyslow>'", "SET"),
    ("SHOW search_path", "public"),
    ("SELECT current_schema(),session_user", "public|reader"),
    (
        "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n
         LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass
         ORDER BY nspname",
        "|public|",
    ),
    ("SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname='whyslow'", "|whyslow|"),
    (
        "SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description
         FROM pg_catalog.pg_type t
         LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid=t.typrelid
         LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
         WHERE t.typname IS NOT NULL AND t.typname = 'int8'",
        "|int8|",
    ),
    (
        "SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr
         FROM pg_catalog.pg_class c
         INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
         WHERE n.nspname = 'public' AND c.relkind not in ('i','I','c')",
        "|requests|",
    ),
];

/// Metadata of the JDBC driver, by what is special in each; `tests/interop` asks with the driver itself.
const JDBC: &[(&str, &str)] = &[
    (
        "SELECT t.typname FROM pg_catalog.pg_type t
         WHERE t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)
         ORDER BY t.typname",
        "timestamptz",
    ),
    (
        "SELECT x.name, x.number FROM (
           SELECT c.relname AS name, (i.keys).n AS number FROM pg_catalog.pg_class c
           JOIN (SELECT indexrelid, indrelid, information_schema._pg_expandarray(indkey) AS keys
                 FROM pg_catalog.pg_index) i ON c.oid = i.indrelid) x",
        "SELECT 0",
    ),
    (
        "SELECT typinput = 'pg_catalog.boolin'::regproc AS is_it, typname FROM pg_catalog.pg_type WHERE typname = 'bool'",
        "t|bool",
    ),
    (
        "SELECT a.attname FROM pg_catalog.pg_attribute a, pg_catalog.pg_constraint con, generate_series(1, 32) AS pos(n)
         WHERE a.attnum = con.conkey[pos.n] AND con.conrelid = a.attrelid",
        "SELECT 0",
    ),
    ("SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'", "32"),
    (
        "SELECT p.proname, NULL, NULL, NULL, pg_catalog.pg_get_function_result(p.oid) FROM pg_catalog.pg_proc p
         WHERE p.proname = 'int4pl' LIMIT 1",
        "int4pl|NULL|NULL|NULL|NULL",
    ),
    ("SELECT (SELECT max(n.nspname) FROM pg_catalog.pg_namespace n WHERE n.nspname = 'public')", "public"),
];

const GRAFANA: &[(&str, &str)] = &[
    ("SELECT current_setting('server_version_num')::int/100 as version", "1600"),
    (
        "select quote_ident(table_name) as \"table\" from information_schema.tables
         where quote_ident(table_schema) not in ('information_schema', 'pg_catalog')
         order by 1",
        "requests",
    ),
    (
        "select quote_ident(column_name) as \"column\", data_type as \"type\" from information_schema.columns
         where table_name = 'requests' order by 1",
        "e2e_s|",
    ),
    ("SELECT extname FROM pg_extension WHERE extname = 'timescaledb'", "SELECT 0"),
    (
        "SELECT floor(extract(epoch from start_time)/60)*60 AS \"time\", count(*) AS n FROM requests
         WHERE start_time BETWEEN '2026-01-01T00:00:00Z' AND '2026-01-02T00:00:00Z' GROUP BY 1 ORDER BY 1",
        "SELECT 0",
    ),
];

#[tokio::test]
async fn tools_get_what_they_ask_for_before_their_users_do() {
    let served = open(fixture(&config()).await).await;
    let mut faults = Vec::new();
    let tools = [
        ("psql", PSQL),
        ("DBeaver", DBEAVER),
        ("JDBC", JDBC),
        ("Grafana", GRAFANA),
    ];
    for (tool, statements) in tools {
        let mut client = connect(served.address).await;
        for (sql, expected) in statements {
            let told = client.ask(sql).await.join("\n");
            if !told.contains(expected) || told.contains("ERROR") {
                let told: String = told.chars().take(600).collect();
                faults.push(format!(
                    "{tool}: {sql}\n  wanted {expected}\n  got    {told}"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A number that one statement tells is good in the next.
#[tokio::test]
async fn objects_keep_their_numbers() {
    let served = open(fixture(&config()).await).await;
    let mut client = connect(served.address).await;
    let sql = "SELECT oid FROM pg_catalog.pg_class WHERE relname = 'requests'";
    let before = client.ask(sql).await;
    client
        .ask("SELECT count(*) FROM pg_catalog.pg_attribute")
        .await;
    let mut other = connect(served.address).await;
    assert_eq!(other.ask(sql).await, before);
    let sql = format!(
        "SELECT count(*) > 10 FROM pg_catalog.pg_attribute WHERE attrelid = '{}'",
        before[0]
    );
    assert_eq!(client.ask(&sql).await[0], "t");
}
