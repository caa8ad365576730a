//! Draws an arrow from each file to the files whose items it uses.

use std::collections::BTreeMap;

use super::{
    extensions::{self, Extended},
    module::{FileId, Module, ModuleId, Package, Reference},
    resolve::{Resolver, Target},
};

/// Every arrow between two files, with the first place that it comes from.
pub(super) type Arrows = BTreeMap<(FileId, FileId), Reference>;

/// The arrows of a package.
pub(super) fn of(package: &Package, extended: &[Extended]) -> Arrows {
    let mut arrows = Arrows::new();
    let resolver = Resolver { package };
    for (id, module) in package.modules.iter().enumerate() {
        for reference in references(module) {
            for target in resolver.resolve(id, reference) {
                if let Some(file) = resolver.file_of(&target) {
                    add(&mut arrows, module.file, file, reference);
                }
                for file in extensions::behind(extended, &target, reference.path.last()) {
                    add(&mut arrows, module.file, file, reference);
                }
            }
        }
    }
    for (id, module) in package.modules.iter().enumerate() {
        for call in &module.calls {
            let uses = |of: &Target| knows(package, &arrows, id, of);
            for file in extensions::called(package, extended, call, uses) {
                add(&mut arrows, module.file, file, &call.method);
            }
        }
    }
    arrows
}

/// The code's paths, and imports that are not re-exports.
fn references(module: &Module) -> impl Iterator<Item = &Reference> {
    let imports = module.imports.iter().filter(|import| !import.is_public).map(|import| &import.from);
    imports.chain(&module.references)
}

/// Whether the module can have a value of that type: its file defines it or has an arrow to it.
fn knows(package: &Package, arrows: &Arrows, module: ModuleId, of: &Target) -> bool {
    let file = package.modules[module].file;
    Resolver { package }.file_of(of).is_some_and(|defined| file == defined || arrows.contains_key(&(file, defined)))
}

fn add(arrows: &mut Arrows, from: FileId, to: FileId, reference: &Reference) {
    if from != to {
        arrows.entry((from, to)).or_insert_with(|| reference.clone());
    }
}
