//! Builds one kernel-side package, refuses an object with a panic path, and measures it.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use miniz_oxide::deflate::compress_to_vec_zlib;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind,
    build::{
        ByteString,
        elf::{Builder, SectionData},
    },
    elf::SHT_STRTAB,
};

use crate::{
    Toolchain, linker,
    pins::{CARGO_HOME, WORKSPACE, cargo_home},
};

/// Bytes of one BPF instruction (a 64-bit immediate counts as two).
const INSTRUCTION: u64 = 8;

/// The level of compression that takes longest, a second.
const SMALLEST: u8 = 10;

/// A kernel-side object file.
#[derive(Debug)]
pub struct Object {
    /// Path of the file.
    pub path: PathBuf,
    /// BPF instructions in all its programs, before the verifier removes what is not configured.
    pub instructions: u64,
}

/// Runs a whole build script: calls [`build_object`], and ends a failed build with the reason in one line.
pub fn build_script(package: &str, folder: &Path, features: &[&str]) {
    if let Err(error) = build_object(package, folder, features) {
        println!("cargo::error={}", format!("{error:#}").replace('\n', "\ncargo::error="));
        std::process::exit(1);
    }
}

/// Builds the binary `package`, whose sources are in `folder`, with these features into `OUT_DIR`, and packs it beside
/// with the suffix `.zlib`. Only a build script can call it.
///
/// # Errors
///
/// Fails if `OUT_DIR` is not set, and for the reasons of [`compile`].
pub fn build_object(package: &str, folder: &Path, features: &[&str]) -> Result<Object> {
    let own_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = ["ratelimit-common", "Cargo.toml", "Cargo.lock"].map(|name| own_folder.with_file_name(name));
    for path in [folder, own_folder].into_iter().chain(workspace.iter().map(PathBuf::as_path)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set: call this from a build script")?);
    let toolchain = tools()?;
    toolchain.files().iter().for_each(|file| println!("cargo::rerun-if-changed={}", file.display()));
    if let Some(untested) = toolchain.untested() {
        println!("cargo::warning={untested}");
    }
    // OUT_DIR is target/PROFILE/build/PACKAGE/out. All profiles and packages share one folder of kernel-side artifacts.
    let target_dir = out_dir.ancestors().nth(4).context("OUT_DIR is not below a target folder")?.join("kernel");
    // Objects with features have another, so that no build takes the other's object.
    let target_dir = target_dir.join(features.join("-"));
    let built = compile_with(&toolchain, package, features, &target_dir)?;
    let path = out_dir.join(package);
    check_paths(&built.path)?;
    let data = without_debug_sections(&built.path).context("cannot strip the kernel object")?;
    let packed = compress_to_vec_zlib(&data, SMALLEST);
    fs::write(&path, data)
        .and_then(|()| fs::write(out_dir.join(format!("{package}.zlib")), packed))
        .context("cannot write the kernel object")?;
    println!("cargo::rustc-env=KERNEL_OBJECT_HASH={:016x}", hash(&path)?);
    Ok(Object { path, ..built })
}

/// Returns an object without the sections that only debuggers read. These are nine tenths of it.
fn without_debug_sections(path: &Path) -> Result<Vec<u8>> {
    let data = fs::read(path)?;
    let mut builder = Builder::read(&*data)?;
    let is_debug = |name: &[u8]| name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    for section in builder.sections.iter_mut().filter(|section| is_debug(&section.name)) {
        section.delete = true;
    }
    builder.delete_orphans();
    // LLVM writes the names of sections into the table of symbols' names. The builder keeps two tables.
    let names = builder.sections.add();
    names.name = ByteString::from(&b".shstrtab"[..]);
    names.sh_type = SHT_STRTAB;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped)?;
    Ok(stripped)
}

/// Refuses an object with paths of this machine, since another machine would build another one.
fn check_paths(path: &Path) -> Result<()> {
    let data = fs::read(path).context("cannot read the kernel object")?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let sources = [(workspace, WORKSPACE, "ratelimit-"), (&cargo_home(), CARGO_HOME, "registry/")];
    if let Some(found) = sources.into_iter().find_map(|(folder, name, within)| path_in(&data, folder, name, within)) {
        bail!("the kernel object contains the path {found}, so another machine would build another one");
    }
    Ok(())
}

/// Returns a path to what is `within` a folder, if the data has it. In the object, the folder is to have this name.
fn path_in(data: &[u8], folder: &Path, name: &str, within: &str) -> Option<String> {
    let path = format!("{}/{within}", folder.display());
    let is_found = folder != Path::new(name) && data.windows(path.len()).any(|part| part == path.as_bytes());
    is_found.then_some(path)
}

fn hash(path: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path).context("cannot read the kernel object")?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// Builds the binary `package` for the kernel below `target_dir`, and reads its size.
///
/// # Errors
///
/// Fails if a tool is missing, and the message names `cargo xtask setup`. Fails with the compiler's messages if it
/// refuses the sources. Fails with the names of the functions if the object contains a panic path, which the kernel
/// cannot load.
pub fn compile(package: &str, target_dir: &Path) -> Result<Object> {
    compile_with(&tools()?, package, &[], target_dir)
}

/// Finds the compiler, if the linker is there too.
fn tools() -> Result<Toolchain> {
    let toolchain = Toolchain::find().filter(|_| linker().is_file());
    toolchain.context("the tools for the kernel side are missing: run `cargo xtask setup` once, then build again")
}

fn compile_with(toolchain: &Toolchain, package: &str, features: &[&str], target_dir: &Path) -> Result<Object> {
    let mut cargo = toolchain.cargo("build", package);
    cargo.args(["--quiet", "--bin", package, "--features", &features.join(","), "--target-dir"]).arg(target_dir);
    let output = cargo.output().with_context(|| format!("cannot run {cargo:?}"))?;
    ensure!(output.status.success(), "building {package} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    inspect(&Toolchain::artifacts(target_dir).join(package))
}

/// Reads the size of an object file.
///
/// # Errors
///
/// Fails if the file is no object, or contains a call into `core::panicking`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_found_and_names_are_not() {
        let data = b"\0/ratelimit/ratelimit-ebpf/src/main.rs\0/cargo/registry/src/x.rs\0/usr/src/rustc-1.96.0/x.rs\0";
        for folder in ["/", "/ratelimit", "/src", "/usr/src", "/ratelimit/ratelimit-ebpf"] {
            assert_eq!(path_in(data, Path::new(folder), WORKSPACE, "ratelimit-"), None, "{folder}");
        }
        assert_eq!(path_in(data, Path::new("/cargo"), CARGO_HOME, "registry/"), None);
        let data = b"\0/home/me/ratelimit/ratelimit-ebpf/src/main.rs\0";
        let found = path_in(data, Path::new("/home/me/ratelimit"), WORKSPACE, "ratelimit-");
        assert_eq!(found.as_deref(), Some("/home/me/ratelimit/ratelimit-"));
    }
}
