//! The stored contract itself: names, types and layout.

use std::collections::HashSet;

use arrow::datatypes::{DataType, TimeUnit};

use crate::{PARTITION, all, column::Origin, reference, requests::band, spec};

/// Types that every Delta reader knows.
fn is_portable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Int64 | DataType::Float64 | DataType::Boolean | DataType::Utf8 => true,
        DataType::Date32 => true,
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => &**zone == "UTC",
        DataType::List(item) => item.name() == "element" && is_portable(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_portable(field.data_type())),
        DataType::Map(entries, false) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return false;
            };
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let is_named = entries.name() == "key_value" && names == ["key", "value"];
            is_named && !fields[0].is_nullable() && is_portable(entries.data_type())
        }
        _ => false,
    }
}

#[test]
fn every_table_can_be_read_by_every_delta_reader() {
    for table in all() {
        for field in table.schema().fields() {
            assert!(
                is_portable(field.data_type()),
                "{}.{}",
                table.name,
                field.name()
            );
            let is_snake_case = field
                .name()
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'));
            assert!(is_snake_case, "{}.{}", table.name, field.name());
        }
    }
}

#[test]
fn every_table_begins_with_its_partition_and_names_each_column_once() {
    for table in all() {
        let schema = table.schema();
        let first = schema.field(0);
        assert_eq!(first.name(), PARTITION);
        assert_eq!(
            (first.data_type(), first.is_nullable()),
            (&DataType::Date32, false)
        );
        let names: HashSet<&str> = table.columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        assert!(std::ptr::eq(spec(table.name).unwrap(), table));
    }
    assert!(spec("no_such_table").is_none());
}

#[test]
fn sort_bloom_and_statistics_name_columns_that_exist() {
    for table in all() {
        let sorted = table.sort.iter().map(|key| key.column);
        for name in sorted
            .chain(table.bloom.iter().copied())
            .chain(table.stats.iter().copied())
        {
            assert!(table.column(name).is_some(), "{}.{name}", table.name);
        }
    }
}

#[test]
fn no_attribute_key_fills_two_columns() {
    let mut span_keys = HashSet::new();
    let mut resource_keys = HashSet::new();
    for column in crate::spans::SPEC.columns {
        let (keys, aliases) = match column.origin {
            Origin::Row => continue,
            Origin::Span { aliases, .. } => (&mut span_keys, aliases),
            Origin::Resource { aliases } => (&mut resource_keys, aliases),
        };
        for key in std::iter::once(&column.source).chain(aliases) {
            assert!(keys.insert(*key), "{key}");
        }
        let name = column.source.replace('.', "_");
        assert_eq!(column.name, name);
    }
}

#[test]
fn the_reference_describes_every_column() {
    let page = reference();
    assert!(page.is_ascii());
    for table in all() {
        assert!(page.contains(&format!("## `{}`\n", table.name)));
        for column in table.columns {
            assert!(
                page.contains(&format!("| `{}` |", column.name)),
                "{}",
                column.name
            );
            assert!(
                !column.doc.is_empty() && column.doc.ends_with('.'),
                "{}",
                column.name
            );
            assert!(!column.doc.contains('|'), "{}", column.name);
        }
    }
}

#[test]
fn bands_begin_at_their_lower_bound() {
    let bands = [
        -1, 0, 127, 128, 511, 512, 2_047, 2_048, 8_191, 8_192, 32_767, 32_768,
    ]
    .map(band);
    let expected = [
        "lt_128", "lt_128", "lt_128", "lt_512", "lt_512", "lt_2k", "lt_2k", "lt_8k", "lt_8k",
        "lt_32k", "lt_32k", "ge_32k",
    ];
    assert_eq!(bands, expected);
}
