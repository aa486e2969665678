//! Inflating and collecting within limit and budget.

use std::io::Write;

use super::*;
use crate::{admission::Budget, status::Overload};

fn compress(compression: Compression, bytes: &[u8]) -> Bytes {
    let level = flate2::Compression::best();
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => zstd::encode_all(bytes, 19).unwrap(),
    }
    .into()
}

const COMPRESSED: [Compression; 3] = [Compression::Gzip, Compression::Deflate, Compression::Zstd];

#[test]
fn bodies_inflate_up_to_the_limit_and_not_a_byte_further() {
    let budget = Budget::new(1 << 30);
    for compression in COMPRESSED {
        for n_bytes in [0, 1, INFLATE_CAPACITY_MIN, 100_000] {
            let bytes: Vec<u8> = (0..n_bytes).map(|n| (n % 251) as u8).collect();
            let compressed = compress(compression, &bytes);
            let at_limit = n_bytes.max(1) as u64;
            let mut permit = budget.permit();
            permit.grow(compressed.len()).unwrap();
            let inflated = inflate(compression, compressed.clone(), at_limit, &mut permit).unwrap();
            assert!(inflated == bytes, "{compression:?} {n_bytes}");
            assert_eq!(
                budget.available_bytes(),
                (1 << 30) - n_bytes,
                "the permit covers the result"
            );
            drop(permit);
            if n_bytes > 1 {
                let over = inflate(compression, compressed, at_limit - 1, &mut budget.permit());
                assert!(
                    matches!(over, Err(Refusal::TooLarge { .. })),
                    "{compression:?} {n_bytes}"
                );
            }
        }
    }
    assert_eq!(
        budget.available_bytes(),
        1 << 30,
        "every permit is given back"
    );
}

#[test]
fn a_bomb_is_stopped_by_the_budget_before_the_limit() {
    let bomb = vec![0; 8 << 20];
    for compression in COMPRESSED {
        let budget = Budget::new(1 << 20);
        let refused = inflate(
            compression,
            compress(compression, &bomb),
            1 << 30,
            &mut budget.permit(),
        );
        assert!(matches!(
            refused,
            Err(Refusal::Overloaded(Overload::BytesInFlight))
        ));
        assert_eq!(budget.available_bytes(), 1 << 20);
    }
}

#[test]
fn a_body_cut_anywhere_is_refused_as_bad_data() {
    for compression in COMPRESSED {
        let whole = compress(
            compression,
            b"resource spans, resource spans, resource spans",
        );
        for n_bytes in 0..whole.len() {
            let cut = inflate(
                compression,
                whole.slice(..n_bytes),
                1 << 20,
                &mut Budget::new(1 << 20).permit(),
            );
            let is_refused = matches!(cut, Err(Refusal::BadCompression(_)));
            // Before its first byte there is no zstd frame, which is an empty stream of frames.
            let is_empty = compression == Compression::Zstd && n_bytes == 0;
            assert!(
                is_refused || is_empty,
                "{compression:?} cut at {n_bytes}: {cut:?}"
            );
        }
    }
}

#[test]
fn encodings_are_read_by_name_and_stacked_ones_refused() {
    for (name, compression) in [
        ("GZIP", Compression::Gzip),
        (" zstd ", Compression::Zstd),
        ("deflate", Compression::Deflate),
        ("identity", Compression::None),
        ("", Compression::None),
    ] {
        assert_eq!(Compression::parse(name.as_bytes()).unwrap(), compression);
    }
    for name in ["br", "snappy", "gzip, gzip", "gzip,zstd", "\u{0}"] {
        assert!(matches!(
            Compression::parse(name.as_bytes()),
            Err(Refusal::UnknownEncoding)
        ));
    }
}

#[test]
fn chunks_join_in_order_and_stop_at_the_limit() {
    let budget = Budget::new(100);
    let mut collector = Collector::new(6, budget.permit());
    for chunk in ["a", "", "bc", "def"] {
        collector
            .push(Bytes::from_static(chunk.as_bytes()))
            .unwrap();
    }
    assert!(matches!(
        collector.push(Bytes::from_static(b"g")),
        Err(Refusal::TooLarge { limit_bytes: 6 })
    ));
    let (bytes, permit) = collector.finish();
    assert_eq!(bytes, "abcdef");
    assert_eq!(budget.available_bytes(), 94);
    drop(permit);
    let mut collector = Collector::new(1000, budget.permit());
    let over = collector.push(Bytes::from(vec![0; 101]));
    assert!(matches!(
        over,
        Err(Refusal::Overloaded(Overload::BytesInFlight))
    ));
}
