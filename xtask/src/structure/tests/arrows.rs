//! Which ways of using an item are arrows, and to which file they lead.

use super::Workspace;

/// Arrows between the rooms of a crate whose `lib.rs` is followed by `lib`, and whose other files are these.
fn arrows(lib: &str, files: &[(&str, &str)]) -> Vec<String> {
    let modules = files.iter().filter(|(file, _)| !file.contains('/') && *file != "main.rs");
    let modules = modules.map(|(file, _)| format!("pub mod {};\n", file.trim_end_matches(".rs")));
    let lib = format!("//! The root.\n{}{lib}", modules.collect::<String>());
    let files = [&[("lib.rs", lib.as_str())], files].concat();
    let graph = Workspace::new("", &files).check().graphs.remove(0);
    let rooms = graph.rooms.into_iter().filter(|(_, below)| !below.is_empty());
    rooms.map(|(room, below)| format!("{room} {}", below.join(" "))).collect()
}

const TARGET: (&str, &str) = ("target.rs", "pub struct Kind;\npub fn run() {}\npub enum Choice { One }\n");

#[test]
fn every_way_of_naming_an_item_is_an_arrow() {
    for text in [
        "use crate::target::Kind;",
        "use crate::{target::{self, Choice as Other}};\nconst X: Other = Other::One;",
        "use super::target as other;\nfn f() { other::run() }",
        "use crate::*;\nfn f() { target::run() }",
        "use crate::target::*;\nfn f() { run() }",
        "fn f() { use crate::target; target::run() }",
        "fn f() { super::target::run() }",
        "fn f(kind: crate::target::Kind) {}",
        "impl From<crate::target::Kind> for u8 { fn from(_: crate::target::Kind) -> u8 { 0 } }",
        "fn f() { println!(\"{}\", crate::target::run()) }",
        "macro_rules! call { () => { $crate::target::run() }; }",
        "#[derive(Serialize)]\nstruct S { #[serde(with = \"crate::target::Kind\")] field: u8 }",
        "mod inner { fn f() { super::super::target::run() } }",
        "mod inner { use super::*; use crate::target::Kind; }",
        "#[cfg(not(test))]\nuse crate::target::Kind;",
    ] {
        assert_eq!(arrows("", &[("user.rs", text), TARGET]), ["user target"], "{text}");
    }
}

#[test]
fn naming_a_module_or_another_package_is_no_arrow() {
    for text in [
        "use crate::target;",
        "use super::*;",
        "use std::collections::BTreeMap;\nfn f() -> BTreeMap<u8, u8> { BTreeMap::new() }",
        "pub use crate::target::Kind;",
        "#[cfg(test)]\nmod tests { use crate::target::Kind; }",
        "#[cfg(test)]\nuse crate::target::Kind;",
        "#[cfg(all(test, unix))]\nfn f() { crate::target::run() }",
        "#[test]\nfn f() { crate::target::run() }",
        "/// Calls [`crate::target::run`].\nfn f() {}",
        "use other::target;\nfn f() { target::run() }",
        "fn f(run: u8) -> u8 { run }",
    ] {
        assert_eq!(arrows("", &[("user.rs", text), TARGET]), [""; 0], "{text}");
    }
}

#[test]
fn a_reexport_leads_to_the_file_that_defines_the_item() {
    let room = ("room.rs", "mod inner;\npub use inner::{Inner, deep::run as start};\n");
    let inner = ("room/inner.rs", "pub mod deep;\npub struct Inner;\n");
    let deep = ("room/inner/deep.rs", "pub fn run() {}\n");
    let user = ("user.rs", "use crate::room::start;\nfn f() { start() }\n");
    assert_eq!(arrows("", &[room, inner, deep, user]), ["user room/inner"]);
    let user = ("user.rs", "fn f() -> crate::Named { crate::Named }\n");
    assert_eq!(arrows("pub use room::Inner as Named;\n", &[room, inner, deep, user]), ["user room"]);
}

#[test]
fn a_child_that_uses_an_item_of_its_parent_has_an_arrow_to_it() {
    let room = ("room.rs", "pub mod inner;\npub const LIMIT: u8 = 0;\n");
    assert_eq!(arrows("", &[room, ("room/inner/mod.rs", "use super::super::room::LIMIT;\n")]), ["room/inner room"]);
    assert_eq!(arrows("", &[room, ("room/inner/mod.rs", "use super::LIMIT;\n")]), ["room/inner room"]);
}

#[test]
fn macros_are_items_of_the_file_that_defines_or_invokes_them() {
    let lib = "macro_rules! checked { ($name:ident) => { pub struct $name; }; }\npub(crate) use checked;\n";
    let made = ("made.rs", "use crate::checked;\nchecked!(Made);\n");
    let user = ("user.rs", "use crate::made::Made;\n");
    assert_eq!(arrows(lib, &[made, user]), ["made lib", "user made"]);
    assert_eq!(arrows(lib, &[("made.rs", "checked!(Made);\n")]), ["made lib"]);
}

#[test]
fn the_path_of_a_file_can_be_given() {
    let lib = "#[path = \"elsewhere/file.rs\"]\nmod named;\n";
    let user = ("user.rs", "use crate::named::Kind;\n");
    assert_eq!(arrows(lib, &[("elsewhere/file.rs", "pub struct Kind;\n"), user]), ["user elsewhere"]);
}

#[test]
fn a_program_has_arrows_to_the_library_of_its_package() {
    let main = ("main.rs", "use crate_a::target;\nfn main() { target::run() }\n");
    assert_eq!(arrows("", &[main, TARGET]), ["main target"]);
}
