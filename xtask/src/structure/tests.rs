//! Tests of the checker on small workspaces.

use std::{
    fs, process,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::check;

/// Checks a workspace with one package of these files, and returns its findings and imports.
fn checked(files: &[(&str, &str)]) -> (Vec<String>, usize) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("structure-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let root = std::env::temp_dir().join(name);
    for (file, text) in [("Cargo.toml", "[package]\n")].iter().chain(files) {
        let path = root.join("crates/a").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let (findings, imports) = check(&root).unwrap();
    fs::remove_dir_all(&root).unwrap();
    (findings.iter().map(ToString::to_string).collect(), imports)
}

const LIB: (&str, &str) = ("src/lib.rs", "mod upper;\nmod lower;\npub use upper::run;\n");

#[test]
fn imports_in_one_direction_are_no_circle() {
    let upper = ("src/upper.rs", "use crate::lower::step;\npub fn run() { step() }\n");
    assert_eq!(checked(&[LIB, upper, ("src/lower.rs", "pub fn step() {}\n")]), (Vec::new(), 1));
}

#[test]
fn a_circle_names_both_files_with_their_lines() {
    let upper = ("src/upper.rs", "\nuse crate::lower::step;\npub fn run() { step() }\n");
    let lower = ("src/lower.rs", "pub fn step() {\n    crate::run()\n}\n");
    let expected = "crates/a/src/lower.rs: circle: crates/a/src/lower.rs:2 uses `crate::run`; \
                    crates/a/src/upper.rs:2 uses `crate::lower::step`";
    let (findings, imports) = checked(&[LIB, upper, lower]);
    let turned = "crates/a/src/upper.rs: circle: crates/a/src/upper.rs:2 uses `crate::lower::step`; \
                  crates/a/src/lower.rs:2 uses `crate::run`";
    assert!(findings == [expected] || findings == [turned], "{findings:?}");
    assert_eq!(imports, 2);
}

#[test]
fn paths_of_each_kind_are_followed() {
    let one = "pub struct One;\n";
    for two in [
        "use super::one::One;",
        "use super::{one::{One as First}};",
        "use super::one;\nfn f() { one::One; }",
        "use crate::room as other;\nfn f() { vec![other::one::One] }",
        "use crate::room::*;\nfn f(_: super::super::room::one::One) {}",
        "use crate::One;",
        "#[derive(Debug)]\nstruct Two(crate::One);",
    ] {
        let lib = ("src/lib.rs", "mod room;\npub use room::one::One;\n");
        let room = ("src/room/mod.rs", "pub mod one;\nmod two;\n");
        let files = [lib, room, ("src/room/one.rs", one), ("src/room/two.rs", two)];
        assert_eq!(checked(&files), (Vec::new(), 1), "{two}");
    }
}

#[test]
fn tests_and_other_crates_do_not_count() {
    for lower in [
        "#[cfg(test)]\nmod tests { use crate::upper::run; }",
        "#[cfg(test)]\nuse crate::{upper::run};\nfn f() {}",
        "#[test]\nfn f() { crate::upper::run() }",
        "use upper::run;\nuse std::{fs, upper};\nfn f() { fs::read() }",
        "// crate::upper::run\nconst TEXT: &str = \"crate::upper::run\";",
    ] {
        let upper = ("src/upper.rs", "use crate::lower::step;\npub fn run() { step() }\n");
        assert_eq!(checked(&[LIB, upper, ("src/lower.rs", lower)]), (Vec::new(), 1), "{lower}");
    }
}

#[test]
fn each_program_is_a_crate_of_its_own() {
    let part = ("src/bin/tool/part.rs", "pub fn f() { crate::g() }\n");
    let main = ("src/bin/tool/main.rs", "mod part;\nfn g() {}\nfn main() { part::f() }\n");
    let (findings, imports) = checked(&[("src/lib.rs", ""), ("src/main.rs", "fn main() {}\n"), main, part]);
    assert_eq!((findings.len(), imports), (1, 2), "{findings:?}");
}
