//! Applications outside the workspace that use the limiter and the client: the examples of their READMEs build without
//! LLVM and compile no C, and do what they say.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::Signal;

/// The root of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the first block of a README in this language.
fn block(readme: &str, language: &str) -> String {
    let (_, rest) = readme.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// An application in a folder of its own.
struct Application {
    folder: Folder,
    manifest: PathBuf,
    /// A folder with the linker alone.
    tools: PathBuf,
}

impl Application {
    /// Makes the application of the README of a crate.
    fn of(name: &str) -> Self {
        let (folder, root) = (Folder::new(), workspace());
        let path = folder.file().with_file_name("");
        let library = root.join("crates").join(name);
        let readme = fs::read_to_string(library.join("README.md")).unwrap();
        let here = format!("{{ path = \"{}\" }}", library.display());
        let dependencies = block(&readme, "toml").replace("\"0.1\"", &here);
        let manifest = path.join("Cargo.toml");
        // Both are built into one folder, so each has a name of its own.
        let package = format!("[package]\nname = \"{name}-application\"\nedition = \"2024\"\n\n");
        fs::write(&manifest, format!("{package}{dependencies}\n[workspace]\n")).unwrap();
        fs::create_dir(path.join("src")).unwrap();
        fs::write(path.join("src/main.rs"), block(&readme, "rust")).unwrap();
        // The same versions as in the workspace, which are there already.
        fs::copy(root.join("Cargo.lock"), path.join("Cargo.lock")).unwrap();
        let tools = path.join("tools");
        fs::create_dir(&tools).unwrap();
        symlink("/usr/bin/cc", tools.join("cc")).unwrap();
        Self { folder, manifest, tools }
    }

    /// Returns cargo with these words, for the application.
    fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(words).arg("--offline").arg("--manifest-path").arg(&self.manifest);
        cargo
            .env("CARGO_TARGET_DIR", workspace().join("target/embedding"))
            .current_dir(self.folder.file().with_file_name(""));
        // Only the compiler and its linker are there, and nothing that would point to LLVM, or lint the workspace.
        cargo.env("PATH", env::join_paths([Path::new(env!("CARGO")).parent().unwrap(), &self.tools]).unwrap());
        for name in ["LLVM_PREFIX", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER"] {
            cargo.env_remove(name);
        }
        cargo
    }

    /// Returns the names of all crates that it compiles.
    fn crates(&self) -> Vec<String> {
        let tree =
            self.cargo(&["tree", "--edges", "normal,build", "--prefix", "none", "--no-dedupe"]).output().unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let text = String::from_utf8(tree.stdout).unwrap();
        let mut names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Builds and runs it, and returns what it prints.
    fn run(&self, words: &[&str]) -> String {
        let run = self.cargo(&["run", "--quiet"]).arg("--").args(words).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap()
    }
}

/// Checks that the application compiles at most so many crates, and none that needs LLVM, a C compiler or a store.
fn is_light(application: &Application, most: usize) {
    let crates = application.crates();
    assert!(crates.len() <= most, "{} crates: {crates:?}", crates.len());
    for heavy in ["aya", "cc", "ratelimit-build", "ratelimit-dataplane", "redis", "ring", "rusqlite"] {
        assert!(!crates.iter().any(|name| name == heavy), "{heavy}: {crates:?}");
    }
}

#[test]
fn an_application_limits_requests_by_the_limiter_alone() {
    let application = Application::of("limiter");
    is_light(&application, 20);
    assert_eq!(application.run(&[]), "3 of 10 requests are allowed\n");
}

#[test]
fn an_application_asks_a_server_by_the_client() {
    let application = Application::of("client");
    is_light(&application, 60);
    let socket = application.folder.file().with_file_name("check.sock");
    let file = application.folder.file().with_file_name("serve.toml");
    let address = format!("unix:{}", socket.display());
    let rule = "[[check]]\nname = \"create-url\"\nkey = \"user\"\nlimits = \"3/h\"\n";
    fs::write(&file, format!("[serve]\nhttp = \"{address}\"\n{rule}")).unwrap();
    // It allows what nobody decides.
    assert_eq!(application.run(&[&address]), "10 of 10 requests are allowed\n");
    let sandbox = Sandbox::new();
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", file.display()));
    let mut server = Daemon::by(&sandbox, command);
    let line = server.line();
    assert!(line.starts_with(&format!("ratelimit: serving {address} by")), "{line}");
    assert_eq!(application.run(&[&address]), "3 of 10 requests are allowed\n");
    server.process.signal(Signal::TERM);
    assert!(server.process.wait().status.success());
}
