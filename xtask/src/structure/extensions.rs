//! `impl` blocks without a trait, for types of another file. Callers of such functions depend on that file, and no
//! import shows it.
//!
//! A child module of the type's module may have one. Then calls of its functions are arrows like any other.

use std::collections::BTreeMap;

use super::{
    module::{Call, FileId, Package},
    resolve::{Resolver, Target},
};
use crate::finding::Finding;

/// An `impl` block in a child module of its type's module.
#[derive(Debug)]
pub(super) struct Extended {
    /// The type.
    of: Target,
    /// The file of the block.
    file: FileId,
    /// Its functions, and whether no other type has one of that name.
    functions: Vec<(String, bool)>,
}

/// The blocks in child modules, and a finding for each that is elsewhere.
pub(super) fn of(package: &Package) -> (Vec<Extended>, Vec<Finding>) {
    let mut definitions = BTreeMap::new();
    for method in package.modules.iter().flat_map(|module| &module.methods) {
        *definitions.entry(method.as_str()).or_insert(0) += 1;
    }
    let (mut extended, mut findings) = (Vec::new(), Vec::new());
    for (id, module) in package.modules.iter().enumerate() {
        for extension in &module.extensions {
            for of in (Resolver { package }).resolve(id, &extension.of) {
                let Target::Item(owner, name) = &of else { continue };
                let defined = package.modules[*owner].file;
                if defined == module.file {
                    continue;
                }
                if package.is_below(id, *owner) {
                    let unique = |name: &String| (name.clone(), definitions.get(name.as_str()) == Some(&1));
                    let functions = extension.functions.iter().map(unique).collect();
                    extended.push(Extended { of, file: module.file, functions });
                } else {
                    findings.push(Finding {
                        file: package.files[module.file].clone(),
                        line: extension.of.line,
                        problem: format!(
                            "`impl {name}` for a type of {}: move it there, or use free functions",
                            package.files[defined]
                        ),
                    });
                }
            }
        }
    }
    (extended, findings)
}

/// Files of the blocks that define `Type::function`, where the path leads to the type.
pub(super) fn behind<'a>(
    extended: &'a [Extended],
    of: &'a Target,
    function: Option<&'a String>,
) -> impl Iterator<Item = FileId> + use<'a> {
    let has = move |block: &Extended| block.functions.iter().any(|(name, _)| Some(name) == function);
    extended.iter().filter(move |block| block.of == *of && has(block)).map(|block| block.file)
}

/// Files of the blocks that a method call can mean. A name that other types have too counts only where the receiver is
/// `self`.
pub(super) fn called(
    package: &Package,
    extended: &[Extended],
    call: &Call,
    uses: impl Fn(&Target) -> bool,
) -> Vec<FileId> {
    let [name] = call.method.path.as_slice() else { return Vec::new() };
    let is_meant = |block: &&Extended| {
        let is_there = |(function, is_unique): &(String, bool)| function == name && (*is_unique || call.on_self);
        block.functions.iter().any(is_there) && uses(&block.of)
    };
    let blocks = extended.iter().filter(is_meant);
    blocks.map(|block| block.file).filter(|file| *file < package.files.len()).collect()
}
