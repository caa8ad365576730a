//! Programs that `cargo xtask setup` has unpacked, or those of the system.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the command of a program in a package.
///
/// # Panics
///
/// If it is missing.
#[must_use]
pub fn program(package: &str, name: &str, version: &str) -> Command {
    find(package, name, version).unwrap_or_else(|| panic!("no {name}: run `cargo xtask setup`"))
}

/// Returns the command of a program in a package, with the libraries of the package. `version` is the argument with which
/// it ends successfully. None if it is missing.
///
/// # Panics
///
/// If this program has no path.
#[must_use]
pub fn find(package: &str, name: &str, version: &str) -> Option<Command> {
    let executable = env::current_exe().expect("no path of the test");
    let is_there = |folder: &PathBuf| {
        let path = |place: &str| folder.join(place).join(name);
        ["usr/bin", "usr/sbin", "bin"].map(path).into_iter().find(|path| path.is_file())
    };
    let mut folders = executable.ancestors().map(|folder| folder.join(package));
    let found = folders.find_map(|folder| is_there(&folder).map(|path| (path, folder.join("usr"))));
    let (path, usr) = found.unwrap_or_else(|| (PathBuf::from(name), PathBuf::new()));
    let triple = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let command = || {
        let mut command = Command::new(&path);
        command.env("LD_LIBRARY_PATH", usr.join(Path::new(&triple)));
        command.env("PYTHONPATH", usr.join("lib/python3/dist-packages"));
        command
    };
    let output = command().arg(version).output();
    output.is_ok_and(|output| output.status.success()).then(command)
}
