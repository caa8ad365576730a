//! Finds and parses the files of a package, from the roots of its crates on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use syn::{Attribute, Item, ItemMod};

use super::{
    collect::{self, is_for_tests},
    module::{FileId, Module, ModuleId, Package},
};

/// Where the files of a module's children are.
struct Place<'a> {
    /// The file that is being read.
    file: FileId,
    /// Its folder, which `#[path]` counts from.
    folder: &'a Path,
    /// Folder of the children's files.
    children: PathBuf,
}

/// Reads the package in `folder` below the workspace's root. Code that only tests compile is not in its modules.
pub(super) fn package(root: &Path, folder: &str) -> Result<Package> {
    let source = root.join(folder).join("src");
    let mut package = Package { library: library_name(&root.join(folder)), ..Package::default() };
    let library = source.join("lib.rs");
    if library.is_file() {
        package.library_root = Some(add_file(&mut package, root, &library, None)?);
    }
    for program in programs(&source)? {
        add_file(&mut package, root, &program, None)?;
    }
    Ok(package)
}

/// `src/main.rs`, `src/bin/NAME.rs` and `src/bin/NAME/main.rs`.
fn programs(source: &Path) -> Result<Vec<PathBuf>> {
    let mut programs = vec![source.join("main.rs")];
    if let Ok(entries) = fs::read_dir(source.join("bin")) {
        for entry in entries {
            let path = entry?.path();
            programs.push(if path.is_dir() { path.join("main.rs") } else { path });
        }
    }
    programs.retain(|path| path.is_file() && path.extension().is_some_and(|extension| extension == "rs"));
    programs.sort();
    Ok(programs)
}

/// The name by which programs of the package import its library.
fn library_name(folder: &Path) -> String {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    let name = |table: &str| manifest.get(table)?.get("name")?.as_str();
    let name = name("lib").or_else(|| name("package")).or_else(|| folder.file_name()?.to_str());
    name.unwrap_or_default().replace('-', "_")
}

fn add_file(package: &mut Package, root: &Path, path: &Path, parent: Option<ModuleId>) -> Result<ModuleId> {
    let parsed = parsed(path)?;
    let name = shown(root, path);
    let file = package.files.iter().position(|known| *known == name).unwrap_or(package.files.len());
    if file == package.files.len() {
        package.files.push(name);
    }
    let folder = path.parent().unwrap_or(root);
    let children = children_of(path, parent.is_none());
    add_module(package, root, &parsed.items, parent, &Place { file, folder, children })
}

fn parsed(path: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))
}

/// The folder of the children's files of a file.
fn children_of(path: &Path, is_root: bool) -> PathBuf {
    if is_root || path.ends_with("mod.rs") { path.with_file_name("") } else { path.with_extension("") }
}

/// The path from the workspace's root, with `..` taken out.
pub(super) fn shown(root: &Path, path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    path.strip_prefix(root).unwrap_or(&path).display().to_string()
}

fn add_module(
    package: &mut Package,
    root: &Path,
    items: &[Item],
    parent: Option<ModuleId>,
    place: &Place<'_>,
) -> Result<ModuleId> {
    let id = package.modules.len();
    package.modules.push(Module { file: place.file, parent, ..Module::default() });
    for item in items {
        match item {
            Item::Mod(module) => add_child(package, root, module, id, place)?,
            item => collect::item(package, id, item),
        }
    }
    Ok(id)
}

fn add_child(package: &mut Package, root: &Path, item: &ItemMod, parent: ModuleId, place: &Place<'_>) -> Result<()> {
    let name = collect::plain(&item.ident);
    if is_for_tests(&item.attrs) || (item.content.is_none() && name == "tests") {
        return add_test_files(package, root, item, place);
    }
    let child = if let Some((_, items)) = &item.content {
        let children = place.children.join(&name);
        add_module(package, root, items, Some(parent), &Place { children, ..*place })?
    } else {
        let file = file_of(item, place)
            .with_context(|| format!("module {name} of {} has no file", package.files[place.file]))?;
        add_file(package, root, &file, Some(parent))?
    };
    package.modules[parent].children.push((name, child));
    Ok(())
}

/// Adds the files of a module that only tests compile, and of the modules in it.
fn add_test_files(package: &mut Package, root: &Path, item: &ItemMod, place: &Place<'_>) -> Result<()> {
    let name = collect::plain(&item.ident);
    if let Some((_, items)) = &item.content {
        let children = place.children.join(&name);
        return add_test_children(package, root, items, &Place { children, ..*place });
    }
    let file = file_of(item, place)
        .with_context(|| format!("test module {name} has no file in {}", place.children.display()))?;
    let items = parsed(&file)?.items;
    package.test_files.insert(shown(root, &file));
    let folder = file.parent().unwrap_or(root);
    add_test_children(package, root, &items, &Place { folder, children: children_of(&file, false), ..*place })
}

fn add_test_children(package: &mut Package, root: &Path, items: &[Item], place: &Place<'_>) -> Result<()> {
    items.iter().try_for_each(|item| match item {
        Item::Mod(module) => add_test_files(package, root, module, place),
        _ => Ok(()),
    })
}

/// The file of a module that is declared without a body.
fn file_of(item: &ItemMod, place: &Place<'_>) -> Option<PathBuf> {
    let name = collect::plain(&item.ident);
    match path_attribute(&item.attrs) {
        Some(path) => Some(place.folder.join(path)),
        None => [place.children.join(format!("{name}.rs")), place.children.join(&name).join("mod.rs")]
            .into_iter()
            .find(|path| path.is_file()),
    }
}

/// The text of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}
