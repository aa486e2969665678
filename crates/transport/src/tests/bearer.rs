//! Which heads of requests are let in.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    BearerTokenAuth, Secret, TokenCheck, TokenId, TokenSource, Unauthenticated, testing::write,
};

fn two_tokens() -> BearerTokenAuth {
    BearerTokenAuth {
        tokens: vec![Secret::new("s3cr3t-A"), Secret::new("s3cr3t-B")],
        ..BearerTokenAuth::default()
    }
}

fn head(name: &'static str, values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    headers
}

#[tokio::test]
async fn a_whole_token_after_the_scheme_is_let_in() {
    use Unauthenticated::{Malformed, Missing, Unknown};
    let check = TokenCheck::open("bearertokenauth", &two_tokens()).unwrap();
    for (values, expected) in [
        (&["Bearer s3cr3t-A"][..], Ok(())),
        (&["bearer s3cr3t-B"], Ok(())),
        (&["BEARER   s3cr3t-A"], Ok(())),
        (&[], Err(Missing)),
        (&[""], Err(Malformed)),
        (&["Bearer"], Err(Malformed)),
        (&["Bearer "], Err(Unknown)),
        (&["Bearers3cr3t-A"], Err(Malformed)),
        (&["s3cr3t-A"], Err(Malformed)),
        (&["Basic czNjcjN0LUE="], Err(Malformed)),
        (&["Bearer s3cr3t-"], Err(Unknown)),
        (&["Bearer s3cr3t-AB"], Err(Unknown)),
        (&["Bearer S3CR3T-A"], Err(Unknown)),
        (&["Bearer s3cr3t-A "], Err(Unknown)),
        (&["Bearer s3cr3t-A,Bearer wrong"], Err(Unknown)),
        (&["Bearer s3cr3t-A", "Bearer s3cr3t-A"], Err(Malformed)),
    ] {
        assert_eq!(
            check.check(&head("authorization", values)).map(drop),
            expected,
            "{values:?}"
        );
    }
    assert_eq!(
        check.check(&head("x-token", &["Bearer s3cr3t-A"])),
        Err(Missing)
    );
}

#[tokio::test]
async fn another_header_without_a_scheme_holds_the_token_alone() {
    let settings = BearerTokenAuth {
        scheme: String::new(),
        header: "X-Api-Key".to_owned(),
        ..two_tokens()
    };
    let check = TokenCheck::open("bearertokenauth", &settings).unwrap();
    assert_eq!(
        check
            .check(&head("x-api-key", &["s3cr3t-B"]))
            .map(TokenId::number),
        Ok(2)
    );
    let mut headers = HeaderMap::new();
    let source = TokenSource::open("bearertokenauth", &settings).unwrap();
    source.add_to(&mut headers);
    assert_eq!(headers["x-api-key"], "s3cr3t-A");
    assert!(!format!("{headers:?}{check:?}{source:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn a_file_with_tokens_is_followed_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let settings = BearerTokenAuth {
        filename: write(folder.path(), "tokens", "\n one \ntwo\n"),
        ..BearerTokenAuth::default()
    };
    let check = TokenCheck::open("bearertokenauth", &settings).unwrap();
    let source = TokenSource::open("bearertokenauth", &settings).unwrap();
    let sent = || {
        let mut headers = HeaderMap::new();
        source.add_to(&mut headers);
        headers
    };
    assert_eq!(sent()["authorization"], "Bearer one");
    assert_eq!(
        check
            .check(&head("authorization", &["Bearer two"]))
            .map(drop),
        Ok(())
    );

    // A file that is emptied by mistake locks nobody out.
    write(folder.path(), "tokens", "\n");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(check.check(&sent()).map(drop), Ok(()));
    write(folder.path(), "tokens", "three");
    let followed = async {
        while sent()["authorization"] != "Bearer three" || check.check(&sent()).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), followed)
        .await
        .unwrap();
    assert!(
        check
            .check(&head("authorization", &["Bearer one"]))
            .is_err()
    );
}
