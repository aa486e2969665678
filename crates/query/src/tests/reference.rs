//! What is told of tables, views and functions is what there is.

use std::path::Path;

use super::support::{config, fixture};

#[tokio::test]
async fn the_page_in_storage_is_what_the_code_says() {
    let fixture = fixture(&config()).await;
    let expected = fixture.engine.reference().await.unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../storage/README.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let is_equal = stored == expected;
    assert!(
        is_equal,
        "storage/README.md is old; UPDATE_EXPECT=1 cargo test --workspace --lib the_page_in_storage writes it"
    );
}
