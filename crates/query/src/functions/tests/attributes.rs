//! Attributes of maps against looking at every entry.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapBuilder, StringArray, StringBuilder};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

use super::super::arguments::Arguments;
use super::super::attr::attr;
use super::value;
use crate::tests::support::{config, fixture};

type Entries = Option<Vec<(String, Option<String>)>>;

fn maps(rows: &[Entries]) -> ArrayRef {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in rows {
        for (key, value) in row.iter().flatten() {
            maps.keys().append_value(key);
            maps.values().append_option(value.as_ref());
        }
        maps.append(row.is_some()).unwrap();
    }
    Arc::new(maps.finish())
}

fn oracle(row: &Entries, key: Option<&str>) -> Option<String> {
    let entries = row.as_ref()?;
    let found = entries
        .iter()
        .find(|(known, _)| Some(known.as_str()) == key)?;
    found.1.clone()
}

fn call(maps: &ArrayRef, keys: ColumnarValue) -> Vec<Option<String>> {
    let values = [ColumnarValue::Array(Arc::clone(maps)), keys];
    let arguments = Arguments {
        values: &values,
        n_rows: maps.len(),
    };
    let found = attr(&arguments).unwrap();
    let found = found.as_string::<i32>().iter();
    found.map(|text| text.map(str::to_owned)).collect()
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "ab", "gen_ai.system", "\u{e4}"]).prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn the_value_is_that_of_the_first_entry_with_the_key(
        rows in prop::collection::vec(
            prop::option::weighted(0.9, prop::collection::vec((key(), any::<Option<String>>()), 0..5)),
            0..20,
        ),
        keys in prop::collection::vec(prop::option::weighted(0.9, key()), 20),
        skipped in 0..20_usize,
    ) {
        // A slice, as it comes out of filters and limits.
        let skipped = skipped.min(rows.len());
        let maps = maps(&rows).slice(skipped, rows.len() - skipped);
        let rows = &rows[skipped..];
        let constant = keys[0].clone();
        let expected: Vec<_> = rows.iter().map(|row| oracle(row, constant.as_deref())).collect();
        let scalar = ColumnarValue::Scalar(ScalarValue::Utf8(constant));
        prop_assert_eq!(call(&maps, scalar), expected);
        let beside = rows.iter().zip(&keys);
        let expected: Vec<_> = beside.map(|(row, key)| oracle(row, key.as_deref())).collect();
        let keys: StringArray = keys.into_iter().take(rows.len()).collect();
        prop_assert_eq!(call(&maps, ColumnarValue::Array(Arc::new(keys))), expected);
    }
}

#[tokio::test]
async fn one_map_is_asked_for_many_keys() {
    let fixture = fixture(&config()).await;
    let sql = "string_agg(coalesce(attr(MAP {'a': '1', 'b': '2'}, k), '-'), ' ' ORDER BY k) FROM (VALUES ('a'), ('b'), ('c')) AS t(k)";
    assert_eq!(value(&fixture, sql).await.as_deref(), Ok("1 2 -"));
}
