//! Errors of the build: objects that can panic, and missing tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ratelimit-build-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compile(folder: &Path, source: &str) -> PathBuf {
    let (file, object) = (folder.join("lib.rs"), folder.join("lib.o"));
    fs::write(&file, source).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=obj", "-Copt-level=3", "-o"]).arg(&object).arg(&file);
    assert!(rustc.status().unwrap().success());
    object
}

#[test]
fn an_object_that_can_panic_is_refused_and_the_function_named() {
    let folder = Folder::new("panic");
    let object = compile(&folder.0, "#![no_std]\n#[unsafe(no_mangle)] pub fn f(a: &[u8], i: usize) -> u8 { a[i] }");
    let error = ratelimit_build::inspect(&object).unwrap_err().to_string();
    assert!(error.starts_with("the kernel object can panic") && error.contains("panic_bounds_check"), "{error}");
    let object = compile(
        &folder.0,
        "#![no_std]\n#[unsafe(no_mangle)] pub fn f(a: &[u8], i: usize) -> u8 { a.get(i).copied().unwrap_or(0) }",
    );
    assert!(ratelimit_build::inspect(&object).unwrap().instructions > 0);
}

/// Builds as a build script does. The test below runs it without the tools.
#[test]
#[ignore = "run by the test below"]
fn builds_without_set_up() {
    let error = ratelimit_build::build_object("ratelimit-ebpf", Path::new("ratelimit-ebpf"), &[]).unwrap_err();
    panic!("{error:#}");
}

#[test]
fn without_the_tools_the_error_names_the_setup_command() {
    let folder = Folder::new("setup");
    let mut build = Command::new(std::env::current_exe().unwrap());
    build
        .args(["--ignored", "--exact", "builds_without_set_up"])
        .env("OUT_DIR", &folder.0)
        .env("CARGO_HOME", &folder.0);
    let output = build.output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(
        text.contains("the tools for the kernel side are missing: run `cargo xtask setup` once, then build again"),
        "{text}"
    );
}
