//! The binary: stripped, for an old C library, and without a path of this machine.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::source::Source;
use crate::{
    run::{self, output},
    target,
};

/// The target of cargo, and the C library whose symbols the binary may use: that of 2012.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";
const GLIBC: (u32, u32) = (2, 17);

/// The largest binary, in bytes.
const LARGEST: u64 = 10_000_000;

/// The linker with its versions and hashes, from the root of the sources.
const TOOLS: &str = "dist/package/build-tools.txt";

/// What the linker leaves out, from the root of the sources.
const SCRIPT: &str = "dist/package/no-unwinding.ld";

/// Builds the binary of these sources below `folder`.
pub(super) fn build(source: &Source, folder: &Path) -> Result<PathBuf> {
    let tools = tools()?;
    let target_dir = folder.join("build");
    let mut cargo = Command::new(tools.join("bin/cargo-zigbuild"));
    cargo.current_dir(&source.root).args(["zigbuild", "--profile", "dist", "--locked", "--package", "ratelimit-user"]);
    cargo.args(["--target", &format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1), "--target-dir"]).arg(&target_dir);
    cargo.env("SOURCE_COMMIT", &source.commit).env("SOURCE_DATE_EPOCH", &source.epoch);
    // Paths of this machine would get into messages of panics.
    let places =
        [(source.root.clone(), "/ratelimit"), (target_dir.clone(), "/ratelimit/target"), (cargo_home(), "/cargo")];
    let map = |option: &str| {
        places.iter().map(|(path, name)| format!("{option}={}={name}", path.display())).collect::<Vec<_>>()
    };
    let script = [format!("-Clink-arg=-Wl,-T,{}", source.root.join(SCRIPT).display())];
    cargo.env("CARGO_ENCODED_RUSTFLAGS", [map("--remap-path-prefix"), script.to_vec()].concat().join("\x1f"));
    // C code of libraries never unwinds.
    let options = ["-fno-unwind-tables".to_owned(), "-fno-asynchronous-unwind-tables".to_owned()];
    cargo.env("CFLAGS", [map("-ffile-prefix-map"), options.to_vec()].concat().join(" "));
    // Zig and its wrappers keep files in the user's cache otherwise.
    let caches = target::folder("dist-tools")?.join("cache");
    cargo.env("XDG_CACHE_HOME", &caches).env("ZIG_GLOBAL_CACHE_DIR", caches.join("zig"));
    cargo.env("ZIG_LOCAL_CACHE_DIR", caches.join("zig-local")).env("CARGO_ZIGBUILD_CACHE_DIR", caches.join("zigbuild"));
    let path = env::join_paths(
        [tools.join("bin")].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    cargo.env("PATH", path.context("PATH has a folder with a colon")?);
    run::run(&mut cargo)?;
    let binary = target_dir.join(TARGET).join("dist/ratelimit");
    check(source, &binary)?;
    Ok(binary)
}

/// Installs the linker from its pinned versions, unless it is there.
fn tools() -> Result<PathBuf> {
    let folder = target::folder("dist-tools")?;
    let wanted = target::workspace().join(TOOLS);
    let (venv, done) = (folder.join("venv"), folder.join("installed.txt"));
    let text = fs::read(&wanted).context("cannot read the versions of tools")?;
    if fs::read(&done).is_ok_and(|installed| installed == text) {
        return Ok(venv);
    }
    println!("dist: downloading a linker for an old C library (about 80 MB)");
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement"]);
    run::run(pip.arg(&wanted).env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))?;
    fs::write(done, text).context("cannot note what is installed")?;
    Ok(venv)
}

/// Returns the folder of the linker, which has the licences of what it links in.
pub(super) fn linker() -> Result<PathBuf> {
    let python = tools()?.join("bin/python");
    let found = output(Command::new(python).args(["-c", "import ziglang; print(ziglang.__path__[0])"]))?;
    Ok(PathBuf::from(found.trim()))
}

/// Checks the size, the required C library, the commit, and that no path of this machine is in the binary.
fn check(source: &Source, binary: &Path) -> Result<()> {
    let data = fs::read(binary).context("cargo has not built the binary")?;
    let size = data.len() as u64;
    ensure!(size < LARGEST, "the binary has {size} bytes, and may have {LARGEST}");
    let symbols = output(Command::new("readelf").args(["--version-info", "--wide"]).arg(binary))?;
    let newest = newest(&symbols).context("readelf names no version of the C library")?;
    ensure!(newest <= GLIBC, "the binary needs glibc {}.{}, and may need {}.{}", newest.0, newest.1, GLIBC.0, GLIBC.1);
    let version = output(Command::new(binary).arg("--version"))?;
    let commit = source.commit.get(..12).context("the commit is too short")?;
    let expected = format!("ratelimit {} (commit {commit})", source.version);
    ensure!(version.trim() == expected, "the binary says {version:?}, and should say {expected:?}");
    for folder in [&source.root, &cargo_home()] {
        let path = format!("{}/", folder.display());
        let is_there = data.windows(path.len()).any(|part| part == path.as_bytes());
        ensure!(!is_there, "the binary contains the path {path}, so another machine would build another one");
    }
    println!("dist: {version}dist: {size} bytes, glibc {}.{}", newest.0, newest.1);
    Ok(())
}

/// Returns the newest version of the C library that symbols need.
fn newest(symbols: &str) -> Option<(u32, u32)> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let mut numbers = rest[..end].split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}

/// Returns the folder of cargo, where sources of libraries lie.
fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo");
    env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn versions_of_the_c_library_are_compared_as_numbers() {
        let text =
            "0x0010: Name: GLIBC_2.2.5  Flags: none\n  0x0020:   Name: GLIBC_2.17\nName: GLIBC_2.9 Name: GLIBC_PRIVATE";
        assert_eq!(newest(text), Some((2, 17)));
        assert_eq!(newest("nothing"), None);
    }
}
