//! Follows a path in the source to the file that defines what it names, through imports and re-exports.

use super::module::{ModuleId, Package, Reference};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A module.
    Module(ModuleId),
    /// An item that this module defines.
    Item(ModuleId, String),
}

/// Paths that are being followed: an import that leads back to itself ends there.
type Followed<'a> = Vec<(ModuleId, &'a str)>;

/// Follows paths within one package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolver<'p> {
    pub(super) package: &'p Package,
}

impl Resolver<'_> {
    /// What `reference`, written in `module`, leads to: nothing if that is in another package.
    pub(super) fn resolve(&self, module: ModuleId, reference: &Reference) -> Vec<Target> {
        self.follow(module, &reference.path, &mut Vec::new()).unwrap_or_default()
    }

    /// None if the first segment is unknown here: then the path is one of another package, or a local variable.
    fn follow<'a>(&'a self, module: ModuleId, path: &'a [String], followed: &mut Followed<'a>) -> Option<Vec<Target>> {
        let (first, mut rest) = path.split_first()?;
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(self.package.root_of(module))],
            "self" => vec![Target::Module(module)],
            "super" => {
                let mut up = self.package.modules[module].parent?;
                while let Some((_, after)) = rest.split_first().filter(|(next, _)| *next == "super") {
                    up = self.package.modules[up].parent?;
                    rest = after;
                }
                vec![Target::Module(up)]
            }
            name => match self.lookup(module, name, followed) {
                Some(targets) => targets,
                None if *name == self.package.library => vec![Target::Module(self.package.library_root?)],
                None => vec![self.textual_macro(name)?],
            },
        };
        for segment in rest {
            targets = self.step(&targets, segment, followed);
        }
        Some(targets)
    }

    /// A macro that `macro_rules` defines can be used without any import below its definition.
    fn textual_macro(&self, name: &str) -> Option<Target> {
        let file = *self.package.macros.get(name)?;
        let module =
            self.package.modules.iter().position(|module| module.file == file && module.items.contains(name))?;
        Some(Target::Item(module, name.to_owned()))
    }

    /// One segment further. Behind a type come its functions and variants, which stay with it.
    fn step<'a>(&'a self, targets: &[Target], segment: &'a str, followed: &mut Followed<'a>) -> Vec<Target> {
        let modules = targets.iter().filter_map(|target| match target {
            Target::Module(module) => Some(*module),
            Target::Item(..) => None,
        });
        let modules: Vec<_> = modules.collect();
        if modules.is_empty() {
            return targets.to_vec();
        }
        let found = modules.into_iter().flat_map(|module| {
            // A macro has made what is not found: it is where the macro is invoked.
            let unseen = || vec![Target::Item(module, segment.to_owned())];
            self.lookup(module, segment, followed).unwrap_or_else(unseen)
        });
        found.collect()
    }

    /// What `name` means in `module`; none if it means nothing there.
    fn lookup<'a>(&'a self, id: ModuleId, name: &'a str, followed: &mut Followed<'a>) -> Option<Vec<Target>> {
        if followed.contains(&(id, name)) {
            return None;
        }
        followed.push((id, name));
        let found = self.lookup_once(id, name, followed);
        followed.pop();
        found
    }

    fn lookup_once<'a>(&'a self, id: ModuleId, name: &'a str, followed: &mut Followed<'a>) -> Option<Vec<Target>> {
        let module = &self.package.modules[id];
        let mut found: Vec<_> =
            module.children.iter().filter(|(child, _)| child == name).map(|(_, id)| Target::Module(*id)).collect();
        if module.items.contains(name) {
            found.push(Target::Item(id, name.to_owned()));
        }
        let mut is_known = !found.is_empty();
        for import in module.imports.iter().filter(|import| import.name == name) {
            // An import of a macro that this module defines has the macro's name.
            is_known |= import.from.path != [name];
            found.extend(self.follow(id, &import.from.path, followed).unwrap_or_default());
        }
        if is_known {
            return Some(found);
        }
        module.globs.iter().find_map(|glob| {
            let modules = self.follow(id, &glob.path, followed)?;
            modules.into_iter().find_map(|target| match target {
                Target::Module(module) => self.lookup(module, name, followed),
                Target::Item(..) => None,
            })
        })
    }

    /// The file of an item; none of a module, since naming it uses nothing.
    pub(super) fn file_of(&self, target: &Target) -> Option<usize> {
        match target {
            Target::Module(_) => None,
            Target::Item(module, _) => Some(self.package.modules[*module].file),
        }
    }
}
