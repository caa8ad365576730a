//! Builds one kernel-side package, refuses an object with a panic path, and measures it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};

use crate::{Toolchain, linker};

/// Bytes of one BPF instruction (a 64-bit immediate counts as two).
const INSTRUCTION: u64 = 8;

/// A kernel-side object that was built.
#[derive(Debug)]
pub struct Object {
    /// Where it is.
    pub path: PathBuf,
    /// BPF instructions in all its programs, before the verifier removes what is not configured.
    pub instructions: u64,
}

/// All that a build script has to do: [`build_object`], or the end of the build with one line that says why.
pub fn build_script(package: &str, folder: &Path) {
    if let Err(error) = build_object(package, folder) {
        println!("cargo::error={}", format!("{error:#}").replace('\n', "\ncargo::error="));
        std::process::exit(1);
    }
}

/// Called by a build script: builds the binary `package`, whose sources are in `folder`, into `OUT_DIR`.
///
/// # Errors
///
/// One sentence that names `cargo xtask setup` where a tool is missing; the compiler's own words where it fails;
/// the names of the functions where the object contains a panic path, which the kernel would refuse to load.
pub fn build_object(package: &str, folder: &Path) -> Result<Object> {
    let own_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = ["ratelimit-common", "Cargo.toml", "Cargo.lock"].map(|name| own_folder.with_file_name(name));
    for path in [folder, own_folder].into_iter().chain(workspace.iter().map(PathBuf::as_path)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set: call this from a build script")?);
    let toolchain = Toolchain::find().filter(|_| linker().is_file());
    let toolchain = toolchain
        .context("the tools for the kernel side are missing: run `cargo xtask setup` once, then build again")?;
    // OUT_DIR is target/PROFILE/build/PACKAGE/out. All profiles and packages share what is built for the kernel.
    let target_dir = out_dir.ancestors().nth(4).context("OUT_DIR is not below a target folder")?.join("kernel");
    let mut cargo = toolchain.cargo("build", package);
    cargo.args(["--quiet", "--bin", package, "--target-dir"]).arg(&target_dir);
    let output = cargo.output().with_context(|| format!("cannot run {cargo:?}"))?;
    ensure!(output.status.success(), "building {package} failed:\n{}", String::from_utf8_lossy(&output.stderr));

    let path = out_dir.join(package);
    fs::copy(Toolchain::artifacts(&target_dir).join(package), &path).context("cannot copy the kernel object")?;
    let object = inspect(&path)?;
    println!("cargo::warning={package}: {} instructions", object.instructions);
    Ok(object)
}

/// Reads an object's size.
///
/// # Errors
///
/// When the file is no object, or contains a call into `core::panicking`.
pub fn inspect(path: &Path) -> Result<Object> {
    let data = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = object::File::parse(&*data).with_context(|| format!("{} is no object file", path.display()))?;
    let panics: Vec<_> =
        file.symbols().filter_map(|symbol| symbol.name().ok()).filter(|name| name.contains("panicking")).collect();
    ensure!(
        panics.is_empty(),
        "the kernel object can panic, which the kernel refuses to load: an index, a division or an overflow check left {}",
        panics.join(", ")
    );
    let text = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let instructions = text.map(|section| section.size() / INSTRUCTION).sum();
    Ok(Object { path: path.to_owned(), instructions })
}
