//! Documents name only what exists.

use crate::tree::{read, root};

/// Words in backquotes that look like a path of the checkout.
fn paths(text: &str) -> Vec<&str> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            let is_path = word.contains('/') || word.ends_with(".md") || word.ends_with(".yml");
            let is_plain = word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            is_path && is_plain && !word.starts_with('/') && !word.starts_with("./")
        })
        .collect()
}

#[test]
fn every_path_in_the_documents_exists() {
    for document in ["README.md", "crates/README.md"] {
        let text = read(document);
        let base = root().join(document).parent().unwrap().to_path_buf();
        // Fenced blocks are commands and pictures; their backquotes do not pair.
        let prose: String = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
        let missing: Vec<&str> = paths(&prose)
            .into_iter()
            .filter(|path| !path.starts_with("v1/") && !path.contains("application/"))
            .filter(|path| !root().join(path).exists() && !base.join(path).exists())
            .collect();
        assert!(
            missing.is_empty(),
            "{document} names what is not there: {missing:#?}"
        );
    }
}

#[test]
fn the_readme_has_the_two_commands_that_ci_runs() {
    let readme = read("README.md");
    let ci = read(".ci/run");
    for command in ["cargo run -- demo", "cargo test --workspace"] {
        assert!(readme.contains(command), "README.md lacks `{command}`");
    }
    assert!(
        ci.contains("README.md"),
        ".ci/run must take the test command from README.md"
    );
}

#[test]
fn the_compose_file_names_ports_and_files_that_exist() {
    let compose = read("docker-compose.yml");
    let pipeline = read("pipelines/compose.yaml");
    for line in compose.lines().map(str::trim) {
        if let Some(mapping) = line.strip_prefix("- \"") {
            let inner = mapping.trim_end_matches('"').rsplit(':').next().unwrap();
            assert!(
                pipeline.contains(&format!(":{inner}")),
                "port {inner} is not in the pipeline file"
            );
        }
        if let Some(mount) = line.strip_prefix("- ./") {
            let path = mount.split(':').next().unwrap();
            assert!(
                root().join(path).exists(),
                "docker-compose.yml mounts `{path}`, which is not there"
            );
        }
    }
    assert!(
        compose.contains("build: ."),
        "the image is built from the Dockerfile"
    );
    assert!(read("Dockerfile").contains("whyslow"));
}
