//! The modules of a package: names, imports and references, as the files have them.

use std::collections::{BTreeMap, BTreeSet};

/// Index of a file in [`Package::files`].
pub(super) type FileId = usize;
/// Index of a module in [`Package::modules`].
pub(super) type ModuleId = usize;

/// A path in the source, such as `crate::rules::lookup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The segments.
    pub(super) path: Vec<String>,
    /// The line, counted from 1.
    pub(super) line: usize,
}

impl Reference {
    /// The path as the source has it.
    pub(super) fn text(&self) -> String {
        self.path.join("::")
    }
}

/// One name that a `use` brings into scope.
#[derive(Debug, Clone)]
pub(super) struct Import {
    /// The name in this module.
    pub(super) name: String,
    /// Where it comes from.
    pub(super) from: Reference,
    /// Whether the `use` has a visibility: then it passes the name on, and alone is no dependency.
    pub(super) is_public: bool,
}

/// An `impl` block without a trait.
#[derive(Debug, Clone)]
pub(super) struct Extension {
    /// The type.
    pub(super) of: Reference,
    /// Names of the functions in it.
    pub(super) functions: Vec<String>,
}

/// A call by method syntax.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Name of the method, as a path of one segment.
    pub(super) method: Reference,
    /// Whether the receiver is `self`.
    pub(super) on_self: bool,
}

/// One module: a file, or a part of one between the braces of a `mod`.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The file that has its text.
    pub(super) file: FileId,
    /// The module around it, if it is not a crate's root.
    pub(super) parent: Option<ModuleId>,
    /// Modules in it. Two can have one name if `cfg` chooses between them.
    pub(super) children: Vec<(String, ModuleId)>,
    /// Names of the functions, types, constants and macros that it defines.
    pub(super) items: BTreeSet<String>,
    /// Names that `use` brings.
    pub(super) imports: Vec<Import>,
    /// Modules and enums all of whose names `use` brings.
    pub(super) globs: Vec<Reference>,
    /// Paths in its code.
    pub(super) references: Vec<Reference>,
    /// Method calls in its code.
    pub(super) calls: Vec<Call>,
    /// Its `impl` blocks without a trait.
    pub(super) extensions: Vec<Extension>,
    /// Names of all functions in its `impl` blocks and traits, once per definition.
    pub(super) methods: Vec<String>,
}

/// A package: its library and its programs.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// Name of the library in paths.
    pub(super) library: String,
    /// Files, by their paths from the workspace's root.
    pub(super) files: Vec<String>,
    /// Files that only tests compile, by their paths from the workspace's root.
    pub(super) test_files: BTreeSet<String>,
    /// Modules of all its crates.
    pub(super) modules: Vec<Module>,
    /// Root of the library.
    pub(super) library_root: Option<ModuleId>,
    /// Macros by name, with the files that define them.
    pub(super) macros: BTreeMap<String, FileId>,
}

impl Package {
    /// The root of the crate that `module` is in.
    pub(super) fn root_of(&self, mut module: ModuleId) -> ModuleId {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }

    /// Whether `module` is `ancestor` or below it.
    pub(super) fn is_below(&self, mut module: ModuleId, ancestor: ModuleId) -> bool {
        while module != ancestor {
            match self.modules[module].parent {
                Some(parent) => module = parent,
                None => return false,
            }
        }
        true
    }
}
