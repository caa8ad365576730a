//! The modules of a package, and what a path in one of them means.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};

use super::scan::{self, Scanned};

/// The folders and the name of a file.
type Place = Vec<String>;

pub(super) struct Module {
    pub(super) file: String,
    pub(super) scanned: Scanned,
    place: Place,
    /// What `crate` means in it.
    root: Place,
}

/// All modules of a package, by number.
#[derive(Default)]
pub(super) struct Modules {
    pub(super) modules: Vec<Module>,
    places: BTreeMap<Place, usize>,
}

/// The module to which a path leads, and whether it goes on to an item of it.
type End = (usize, bool);

/// Imports of imports that are followed.
const MOST_STEPS: usize = 16;

impl Modules {
    /// Reads all files of the folder `src` of a package.
    pub(super) fn read(root: &Path, src: &Path) -> Result<Self> {
        let mut modules = Self::default();
        modules.add(root, src, &[], &[])?;
        Ok(modules)
    }

    fn add(&mut self, root: &Path, folder: &Path, place: &[String], of: &[String]) -> Result<()> {
        let is_library = folder.join("lib.rs").is_file();
        let of = if is_library || folder.join("main.rs").is_file() { place } else { of };
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let below = [place, std::slice::from_ref(&name)].concat();
            if path.is_dir() {
                self.add(root, &path, &below, of)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                // Nothing imports from a program beside a library.
                let is_folder = ["mod", "lib"].contains(&&*name) || name == "main" && !is_library;
                let place = if is_folder { place.to_vec() } else { below };
                let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                let scanned = fs::read_to_string(&path).map_err(Into::into).and_then(|text| scan::file(&text));
                let scanned = scanned.with_context(|| format!("cannot read {file}"))?;
                self.places.insert(place.clone(), self.modules.len());
                self.modules.push(Module { file, scanned, place, root: of.to_vec() });
            }
        }
        Ok(())
    }

    /// Returns the module with the item that a path in a module means. None if it means a module, or something of another
    /// crate.
    pub(super) fn item(&self, from: usize, path: &[String]) -> Option<usize> {
        self.follow(from, path, MOST_STEPS).and_then(|(module, is_item)| is_item.then_some(module))
    }

    /// Follows a path as far as it leads to modules and imports.
    fn follow(&self, from: usize, path: &[String], steps: usize) -> Option<End> {
        let (first, rest) = path.split_first()?;
        let mut end = match first.as_str() {
            "crate" => (*self.places.get(&self.modules[from].root)?, false),
            "self" => (from, false),
            "super" => self.parent(from)?,
            name => self.named(from, name, steps.checked_sub(1)?)??,
        };
        for name in rest {
            end = match name.as_str() {
                _ if end.1 => break,
                "super" => self.parent(end.0)?,
                name => self.named(end.0, name, steps.checked_sub(1)?).unwrap_or(Some((end.0, true)))?,
            };
        }
        Some(end)
    }

    /// Returns what a module below this one, or an import in it, means. The inner value is none if it is of another crate.
    fn named(&self, module: usize, name: &str, steps: usize) -> Option<Option<End>> {
        let Module { place, scanned, .. } = &self.modules[module];
        let child = self.places.get(&[place, &[name.to_owned()][..]].concat());
        let imported = || Some(self.follow(module, scanned.imports.get(name)?, steps));
        child.map(|child| Some((*child, false))).or_else(imported)
    }

    fn parent(&self, module: usize) -> Option<End> {
        Some((*self.places.get(self.modules[module].place.split_last()?.1)?, false))
    }
}
