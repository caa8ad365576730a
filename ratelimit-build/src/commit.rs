//! The source commit of a build, which `ratelimit --version` names.

use std::{
    env,
    path::Path,
    process::{self, Command},
};

use anyhow::{Context as _, Result, ensure};

/// Variable with the commit, for builds of sources without git.
const GIVEN: &str = "SOURCE_COMMIT";

/// What the product is built from. Other files have no effect on it.
const SOURCES: [&str; 7] =
    ["Cargo.lock", "Cargo.toml", "crates", "ratelimit-build", "ratelimit-common", "ratelimit-ebpf", "ratelimit-user"];

/// Digits of a commit in the version.
const DIGITS: usize = 12;

/// Gives the crate the variable `RATELIMIT_VERSION` with its version and its source commit, or ends a failed build with
/// the reason in one line. Only a build script can call it.
///
/// Debug builds do not look for the commit, since each commit would build the crate again.
pub fn name_version() {
    if let Err(error) = try_name_version() {
        println!("cargo::error={error:#}");
        process::exit(1);
    }
}

fn try_name_version() -> Result<()> {
    println!("cargo::rerun-if-env-changed={GIVEN}");
    let version = env::var("CARGO_PKG_VERSION").context("not in a build script")?;
    let given = env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let text = match given {
        Some(commit) => format!("commit {}", checked(&commit)?),
        None if !is_release => "debug build".to_owned(),
        None => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
            // Cargo calls the build script again after a change of one of them.
            watched(&root).iter().for_each(|file| println!("cargo::rerun-if-changed={file}"));
            described(&root).unwrap_or_else(|| "unknown commit".to_owned())
        }
    };
    println!("cargo::rustc-env=RATELIMIT_VERSION={version} ({text})");
    Ok(())
}

/// Returns the digits of a commit that the version shows.
fn checked(commit: &str) -> Result<&str> {
    let is_commit = commit.len() >= DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(is_commit, "{GIVEN} must have {DIGITS} hexadecimal digits or more, as `git rev-parse HEAD` prints them");
    Ok(&commit[..DIGITS])
}

/// Returns the files that a change of the commit or of the sources changes.
fn watched(root: &Path) -> Vec<String> {
    let head = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    // A branch in packed-refs has no file of its own before the next commit, but each commit is in the log.
    let names = ["HEAD", "packed-refs", "logs/HEAD"].into_iter().chain(head.as_deref());
    let files = names.filter_map(|name| git(root, &["rev-parse", "--path-format=absolute", "--git-path", name]));
    let sources = SOURCES.map(|name| root.join(name).display().to_string());
    // Cargo takes a file that does not exist for changed.
    files.chain(sources).filter(|file| Path::new(file).exists()).collect()
}

/// Describes the commit of the sources in `root`, if that is the root of a repository.
fn described(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let changes = if git(root, &status)?.is_empty() { "" } else { " with changes" };
    Some(format!("commit {}{changes}", checked(&commit).ok()?))
}

/// Runs git in `root`, and returns what it prints.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// A repository in a folder of its own, which goes with it.
    struct Repository(PathBuf);

    impl Repository {
        fn named(name: &str) -> Self {
            let root = env::temp_dir().join(format!("ratelimit-{name}-{}", process::id()));
            fs::create_dir(&root).unwrap();
            let repository = Self(root);
            repository.git("init --quiet");
            repository
        }

        fn git(&self, words: &str) -> String {
            git(&self.0, &words.split(' ').collect::<Vec<_>>()).unwrap()
        }

        /// Commits all files, and returns the digits of the commit.
        fn commit(&self) -> String {
            self.git("add .");
            self.git("-c user.name=a -c user.email=a commit --quiet --allow-empty --message=a");
            self.git("rev-parse HEAD")[..DIGITS].to_owned()
        }

        /// Adds a file, with the folder of it.
        fn add(&self, name: &str) {
            let file = self.0.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "1").unwrap();
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_commits_are_accepted_from_the_environment() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(checked(commit).unwrap(), "0123456789ab");
        for bad in ["main", "0123456", "0123456789ab\ncargo::warning=x"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_repository_has_a_commit_and_a_folder_in_it_has_none() {
        let repository = Repository::named("commit");
        let root = &repository.0;
        assert_eq!(described(root), None, "there is no commit yet");
        repository.add("ratelimit-user/file");
        let commit = format!("commit {}", repository.commit());
        assert_eq!(described(root).as_ref(), Some(&commit));
        assert_eq!(described(&root.join("ratelimit-user")), None, "another repository's commit is not ours");
        repository.add("other");
        assert_eq!(described(root).as_ref(), Some(&commit), "other files do not matter");
        repository.add("ratelimit-user/new");
        assert_eq!(described(root), Some(format!("{commit} with changes")));
    }

    #[test]
    fn a_commit_on_a_packed_branch_changes_a_watched_file() {
        let repository = Repository::named("watched");
        repository.commit();
        repository.git("pack-refs --all");
        let files = watched(&repository.0);
        let texts = || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
        let before = texts();
        repository.commit();
        assert_ne!(texts(), before);
    }
}
