//! No file without an inbound `mod`: what no module names is neither built nor tested.

use super::{Finding, Tree, identifiers, is_rust};

/// Every source file is declared by the module above it.
pub(super) fn inbound(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, _) in tree.iter().filter(|(path, _)| is_rust(path)) {
        let Some((base, inner)) = split_source(path) else { continue };
        if is_root(inner) {
            continue;
        }
        let (parents, name) = parents(base, inner);
        let declared = parents
            .iter()
            .any(|parent| tree.text(parent).is_some_and(|text| declares(text, &name)));
        if !declared {
            let message = format!("no `mod {name};` in {}", parents.join(" or "));
            found.push(Finding::at(path, 0, message));
        }
    }
    found
}

/// `crates/a/src/b/c.rs` as `crates/a/src/` and `b/c.rs`.
fn split_source(path: &str) -> Option<(&str, &str)> {
    if let Some(inner) = path.strip_prefix("src/") {
        return Some(("src/", inner));
    }
    let at = path.find("/src/")?;
    path.split_at_checked(at.saturating_add("/src/".len()))
}

/// Whether cargo finds the file by itself.
fn is_root(inner: &str) -> bool {
    let in_bin = inner.strip_prefix("bin/");
    inner == "lib.rs"
        || inner == "main.rs"
        || in_bin.is_some_and(|file| !file.contains('/') || file.ends_with("/main.rs"))
}

/// The files that may declare a module, and its name.
fn parents(base: &str, inner: &str) -> (Vec<String>, String) {
    let stem = inner.trim_end_matches(".rs").trim_end_matches("/mod");
    let Some((directory, name)) = stem.rsplit_once('/') else {
        return (vec![format!("{base}lib.rs"), format!("{base}main.rs")], stem.to_owned());
    };
    let mut parents = vec![format!("{base}{directory}.rs"), format!("{base}{directory}/mod.rs")];
    if directory.starts_with("bin/") {
        parents.push(format!("{base}{directory}/main.rs"));
    }
    (parents, name.to_owned())
}

/// Whether a text declares the module in a file of its own.
fn declares(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let mut words = identifiers(code);
        code.ends_with(';')
            && words.any(|word| word == "mod")
            && words.next().is_some_and(|word| word == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undeclared_files_are_found() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "pub mod table;\n// mod lost;\npub(crate) mod shape;\n"),
            ("crates/a/src/table.rs", "#[cfg(test)]\nmod tests;\nmod inline {\n}\n"),
            ("crates/a/src/table/tests.rs", ""),
            ("crates/a/src/table/inline.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/src/shape/mod.rs", "mod deep;"),
            ("crates/a/src/shape/deep.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/model.rs", ""),
        ]);
        let found: Vec<String> = inbound(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["crates/a/src/lost.rs", "crates/a/src/table/inline.rs"]);
    }
}
