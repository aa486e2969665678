//! Locations, and the synced store for local folders.

use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};

use crate::Location;
use crate::synced::SyncedFolder;

#[test]
fn locations_are_folders_or_buckets() {
    let cases = [
        ("/var/lib/whyslow", "file:///var/lib/whyslow/"),
        ("/a b/c#d/50%", "file:///a%20b/c%23d/50%25/"),
        ("file:///data/lake", "file:///data/lake/"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/a/b/", "s3://bucket/a/b/"),
        (
            "gs://bucket/a",
            "location `gs://bucket/a` has scheme `gs`; use a folder, `file://` or `s3://bucket/prefix`",
        ),
        ("s3:///a", "location `s3:///a` is not valid"),
        ("", "location `` is not valid"),
    ];
    for (text, expected) in cases {
        let found = match Location::parse(text) {
            Ok(location) => location.root_url().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text}");
    }
    let here = Location::parse("data").unwrap().local_path().unwrap();
    assert_eq!(here, std::env::current_dir().unwrap().join("data"));
}

#[test]
fn secrets_in_options_are_never_shown() {
    let options = [("aws_secret_access_key".to_owned(), "hunter2".to_owned())];
    let location = Location::parse("s3://bucket/a")
        .unwrap()
        .with_options(options);
    for shown in [format!("{location:?}"), location.to_string()] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let unknown = location.with_options([("aws_colour".to_owned(), "hunter2".to_owned())]);
    let error = unknown.open(false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "object store option `aws_colour` is not known"
    );
}

#[tokio::test]
async fn a_create_loses_against_what_is_there_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = Path::from_absolute_path(folder.path()).unwrap();
    let file = place.clone().join("a").join("b").join("1.json");
    let store = SyncedFolder::new();
    store
        .put_opts(&file, "one".into(), PutMode::Create.into())
        .await
        .unwrap();
    let again = store
        .put_opts(&file, "two".into(), PutMode::Create.into())
        .await
        .unwrap_err();
    assert!(matches!(again, Error::AlreadyExists { .. }), "{again}");
    assert_eq!(
        store.get(&file).await.unwrap().bytes().await.unwrap(),
        "one"
    );
    store.put(&file, "three".into()).await.unwrap();
    assert_eq!(
        store.get(&file).await.unwrap().bytes().await.unwrap(),
        "three"
    );
    let names: Vec<_> = std::fs::read_dir(folder.path().join("a/b"))
        .unwrap()
        .collect();
    assert_eq!(names.len(), 1);
}

#[tokio::test]
async fn an_upload_in_parts_appears_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let file = Path::from_absolute_path(folder.path())
        .unwrap()
        .join("1.checkpoint.parquet");
    let store = SyncedFolder::new();
    let mut upload = store.put_multipart(&file).await.unwrap();
    for part in ["ab", "cd", ""] {
        upload.put_part(PutPayload::from(part)).await.unwrap();
    }
    assert!(store.head(&file).await.is_err());
    upload.complete().await.unwrap();
    assert_eq!(
        store.get(&file).await.unwrap().bytes().await.unwrap(),
        "abcd"
    );
    let mut upload = store.put_multipart(&file).await.unwrap();
    upload.put_part(PutPayload::from("lost")).await.unwrap();
    upload.abort().await.unwrap();
    assert_eq!(
        store.get(&file).await.unwrap().bytes().await.unwrap(),
        "abcd"
    );
}
