//! Tests of the checker on small workspaces, each of which breaks one rule.

mod arrows;

use std::{
    fs,
    path::PathBuf,
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{Report, check};

/// A workspace in a temporary folder, which is removed on drop.
struct Workspace(PathBuf);

impl Workspace {
    /// Writes a workspace whose only crate is `a`.
    fn new(rooms: &str, files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("structure-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let workspace = Self(std::env::temp_dir().join(name));
        workspace.write("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
        workspace.write("a/Cargo.toml", "[package]\nname = \"crate-a\"\n");
        if !rooms.is_empty() {
            workspace.write("rooms.toml", rooms);
        }
        for (file, text) in files {
            workspace.write(&format!("a/src/{file}"), text);
        }
        workspace
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn check(&self) -> Report {
        check(&self.0).unwrap()
    }

    /// The findings as text.
    fn findings(&self) -> Vec<String> {
        self.check().findings.iter().map(ToString::to_string).collect()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ROOMS: &str = "[a]\nlib = \"The root.\"\nupper = \"The upper room.\"\nlower = \"The lower room.\"\n";
const LIB: (&str, &str) = ("lib.rs", "//! The root.\nmod upper;\nmod lower;\n");

#[test]
fn arrows_that_lead_down_are_in_order() {
    let lib = ("lib.rs", "//! The root.\nmod upper;\nmod lower;\npub use upper::run;\n");
    let upper = ("upper.rs", "use crate::lower::step;\npub fn run() { step() }\n");
    let workspace = Workspace::new(ROOMS, &[lib, upper, ("lower.rs", "pub fn step() {}\n")]);
    assert_eq!(workspace.findings(), [""; 0]);
    let text = workspace.check().to_string();
    assert!(text.starts_with("a: 3 files with 1 arrows, 3 rooms with 1 arrows; 0 arrows upward, 0 circles"), "{text}");
    assert!(text.contains("\n  lib\n  upper -> lower\n  lower\n"), "{text}");
}

#[test]
fn an_upward_arrow_names_both_files() {
    let lower = ("lower.rs", "\nuse crate::upper::run;\npub fn step() { run() }\n");
    let findings = Workspace::new(ROOMS, &[LIB, ("upper.rs", "pub fn run() {}\n"), lower]).findings();
    let expected = "a/src/lower.rs:2: upward arrow: `crate::upper::run` leads to a/src/upper.rs, \
                    whose room upper stands above the room lower";
    assert_eq!(findings, [expected]);
}

#[test]
fn a_circle_within_a_room_names_its_files() {
    let rooms = "[a]\nlib = \"The root.\"\nroom = \"The room.\"\n";
    let files = [
        ("lib.rs", "//! The root.\nmod room;\n"),
        ("room/mod.rs", "//! The room.\nmod one;\nmod two;\nmod three;\n"),
        ("room/one.rs", "pub fn f() { super::two::f() }\n"),
        ("room/two.rs", "use super::three;\npub fn f() { three::f() }\npub fn g() {}\n"),
        ("room/three.rs", "use super::{one, two::g};\npub fn f() { one::f(); g() }\n"),
    ];
    let findings = Workspace::new(rooms, &files).findings();
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    for part in [
        "three.rs:1 uses `super::two::g` of a/src/room/two.rs",
        "two.rs:2 uses `three::f`",
        "1 more files are in it: a/src/room/one.rs",
    ] {
        assert!(finding.contains(part), "{part}: {finding}");
    }
}

#[test]
fn without_rooms_there_is_no_order_and_circles_are_found() {
    let upper = ("upper.rs", "pub fn run() { crate::lower::step() }\n");
    let lower = ("lower.rs", "pub fn step() { crate::upper::run() }\n");
    let report = Workspace::new("", &[LIB, upper, lower]).check();
    assert_eq!(report.findings.len(), 1);
    let graph = &report.graphs[0];
    assert_eq!((graph.circles, graph.room_circles, graph.upward, graph.rooms.len()), (1, 1, 0, 3));
}

#[test]
fn an_impl_block_in_another_file_is_refused_with_both_files() {
    let upper = (
        "upper.rs",
        "use crate::lower::Lower;\nimpl Lower { pub fn more(&self) {} }\nimpl Drop for Lower { fn drop(&mut self) {} }\n",
    );
    let findings = Workspace::new(ROOMS, &[LIB, upper, ("lower.rs", "pub struct Lower;\n")]).findings();
    let expected = "a/src/upper.rs:2: `impl Lower` for a type of a/src/lower.rs: \
                    move it there, or use free functions";
    assert_eq!(findings, [expected]);
}

#[test]
fn a_child_module_may_extend_a_type_and_calls_of_its_functions_are_arrows() {
    let rooms = "[a]\nlib = \"The root.\"\nroom = \"The room.\"\n";
    let lib = ("lib.rs", "//! The root.\nmod room;\n");
    let child = ("room/child.rs", "use super::Kind;\nimpl Kind { pub fn extended(&self) {} }\n");
    let parent = "//! The room.\nmod child;\npub struct Kind;\n";
    assert_eq!(Workspace::new(rooms, &[lib, ("room/mod.rs", parent), child]).findings(), [""; 0]);
    for call in ["kind.extended()", "Kind::extended(kind)"] {
        let parent = format!("{parent}pub fn run(kind: &Kind) {{ {call} }}\n");
        let findings = Workspace::new(rooms, &[lib, ("room/mod.rs", &parent), child]).findings();
        assert!(findings.len() == 1 && findings[0].contains("circle: a/src/room/"), "{findings:?}");
    }
}

#[test]
fn every_folder_and_file_beside_the_root_is_listed_with_a_sentence() {
    let files = [
        ("lib.rs", "//! The root.\nmod upper;\nmod other;\n"),
        ("upper/mod.rs", "//! The upper room.\nmod inner;\n"),
        ("upper/inner/mod.rs", "//! More.\n"),
        ("other.rs", ""),
    ];
    let findings = Workspace::new("[a]\nlib = \"The root.\"\nupper = \"\"\nlower = \"Nothing.\"\n", &files).findings();
    let expected = [
        "a/src/other.rs: rooms.toml does not list the room other of a",
        "a/src/upper/inner/mod.rs: rooms.toml does not list the room upper/inner of a",
        "rooms.toml: the room lower of a does not exist",
        "rooms.toml: the room upper of a has no sentence that says what belongs there",
    ];
    assert_eq!(findings, expected);
}

#[test]
fn every_crate_has_rooms() {
    let findings = Workspace::new("[b]\nlib = \"The root.\"\n", &[("lib.rs", "//! The root.\n")]).findings();
    assert_eq!(findings, ["rooms.toml: the crate a has no rooms"]);
}

#[test]
fn a_crowded_folder_a_long_file_and_a_silent_folder_are_found() {
    let rooms = "[a]\nlib = \"The root.\"\nlong = \"The long file.\"\n";
    let lib = ("lib.rs", "//! The root.\nmod long;\n");
    let workspace = Workspace::new(rooms, &[lib, ("long.rs", &"\n".repeat(301))]);
    workspace.write("a/tests/main.rs", "fn main() {}\n");
    for number in 0..16 {
        workspace.write(&format!("a/tests/crowd/test{number}.rs"), "");
    }
    let expected = [
        "a/src/long.rs:301: 301 lines; at most 300 are allowed",
        "a/tests/crowd: 16 files directly in this folder; at most 15 are allowed",
        "a/tests/main.rs:1: the file of a folder must begin with a `//!` comment that says what belongs there",
    ];
    assert_eq!(workspace.findings(), expected);
}

#[test]
fn a_file_that_no_module_declares_is_found() {
    let lib = "//! The root.\nmod room;\n#[path = \"given/named.rs\"]\nmod path;\n#[cfg(test)]\nmod checks;\n\
               #[cfg(test)]\nmod inline {\n    mod deep;\n}\nmod tests;\n";
    let declared = [
        ("lib.rs", lib),
        ("room/mod.rs", "//! The room.\nmod inner;\n"),
        ("room/inner.rs", ""),
        ("given/named.rs", "//! Named by its path.\n"),
        ("checks/mod.rs", "//! Checks.\nmod first;\n"),
        ("checks/first.rs", "//! The first.\nmod second;\n"),
        ("checks/first/second.rs", ""),
        ("inline/deep.rs", ""),
        ("tests.rs", "//! Tests.\nmod more;\n"),
        ("tests/more.rs", ""),
        ("main.rs", "//! The program.\n"),
        ("bin/short.rs", ""),
        ("bin/long/main.rs", "//! Another program.\nmod part;\n"),
        ("bin/long/part.rs", ""),
        ("script.rs", "fn main() {}\n"),
    ];
    let orphans = ["bin/long/lost.rs", "checks/first/lost.rs", "lost.rs", "room/lost/mod.rs", "tests/lost.rs"];
    let lost = orphans.map(|file| (file, "//! Lost.\n"));
    let workspace = Workspace::new("", &[&declared[..], &lost[..]].concat());
    workspace.write("a/Cargo.toml", "[package]\nname = \"crate-a\"\nbuild = \"src/script.rs\"\n");
    workspace.write("a/build.rs", "fn main() {}\n");
    assert_eq!(workspace.findings(), orphans.map(|file| format!("a/src/{file}: no module declares this file")));
}

#[test]
fn files_that_run_in_the_kernel_are_shorter() {
    let rooms = "kernel = [\"a\"]\n[a]\nlib = \"The root.\"\n";
    let text = format!("//! The root.\n{}", "\n".repeat(150));
    let findings = Workspace::new(rooms, &[("lib.rs", &text)]).findings();
    assert_eq!(findings, ["a/src/lib.rs:151: 151 lines; at most 150 are allowed"]);
}
