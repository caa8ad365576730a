//! Writes the copy of a list, and what is known of it.

use std::{
    fmt::Display,
    fs::{self, DirBuilder},
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use ratelimit_base::{
    files::{damaged, guarded as file},
    notify::journal::{Level, say},
};
use ratelimit_dataplane::pins::ownership;

use crate::config::daemon::kept::Kept;

/// Permissions for the owner alone.
const MODE: u32 = 0o700;

/// Keeps a list as the copy, and what is known of it. Without a list, the copy stays.
///
/// # Errors
///
/// Fails with the reason. The copy cannot be used if only what is known of it was written: the next request brings both.
pub(super) fn keep(copy: &Path, list: Option<&[u8]>, kept: &Kept) -> Result<(), String> {
    let failed = |error: &dyn Display| format!("the copy {} cannot be written: {error}", copy.display());
    let folder = copy.parent().unwrap_or(copy);
    // No other user may choose where the folder is made, nor what it is.
    ownership::check(folder).map_err(|error| failed(&error))?;
    DirBuilder::new().recursive(true).mode(MODE).create(folder).map_err(|error| failed(&error))?;
    ownership::check(folder).map_err(|error| failed(&error))?;
    if Kept::read(copy).is_none() && damaged::is_no_text(&Kept::path(copy)) {
        for path in [Kept::path(copy), copy.to_owned()] {
            match damaged::set_aside(&path) {
                Ok(aside) => say(
                    Level::Warning,
                    &format!("{} was damaged: it has the name {} now", path.display(), aside.display()),
                ),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }
    if let Some(other) = foreign(copy) {
        return Err(failed(&format!(
            "{} belongs to something else: write another path into copy, or delete it",
            other.display()
        )));
    }
    let write = |path: &Path, bytes: &[u8]| file::replace(path, |out| out.write_all(bytes));
    let of_copy = serde_json::to_vec(kept).map_err(|error| failed(&error))?;
    // This comes first: it marks the copy as a file of the daemon.
    write(&Kept::path(copy), &of_copy).map_err(|error| failed(&error))?;
    list.map_or(Ok(()), |list| write(copy, list)).map_err(|error: io::Error| failed(&error))
}

/// Returns a file in the place of the copy that the daemon has not written.
fn foreign(copy: &Path) -> Option<PathBuf> {
    if Kept::read(copy).is_some() {
        return None;
    }
    [copy.to_owned(), Kept::path(copy)].into_iter().find(|path| fs::symlink_metadata(path).is_ok())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn kept(list: &[u8]) -> Kept {
        let ((bytes, sha256), now) = (Kept::digest(list), Timestamp::UNIX_EPOCH);
        let url = "https://feeds.example/drop".to_owned();
        let (etag, last_modified) = (Some("1".to_owned()), None);
        Kept { url, etag, last_modified, changed_at: now, checked_at: now, entries: 1, bytes, sha256 }
    }

    fn with_copy(copy: &Path, most: usize) -> Result<Vec<u8>, String> {
        Kept::with_copy(copy, "https://feeds.example/drop", most).map(|(_, list)| list)
    }

    #[test]
    fn only_what_the_daemon_wrote_is_a_copy_and_only_that_is_replaced() {
        let folder = std::env::temp_dir().join(format!("ratelimit-copy-{}", std::process::id()));
        let copy = folder.join("lists/drop");
        let not_fetched = Err("has not been fetched yet".to_owned());
        assert_eq!(with_copy(&copy, 1), not_fetched);
        let (first, second) = (b"192.0.2.1\n", b"192.0.2.2\n");
        keep(&copy, Some(first), &kept(first)).unwrap();
        assert_eq!(with_copy(&copy, 1).as_deref(), Ok(&first[..]));
        assert_eq!(with_copy(&copy, 0), Err("has 1 entries, and max-entries allows 0".to_owned()));
        assert_eq!(Kept::with_copy(&copy, "https://feeds.example/other", 1).map(drop), not_fetched.clone().map(drop));

        // Each of the two files without the other one, as a crash can leave them.
        keep(&copy, None, &kept(second)).unwrap();
        for changed in [&first[..], b"192.0.2.2\n\n", b""] {
            fs::write(&copy, changed).unwrap();
            assert_eq!(
                with_copy(&copy, 1),
                Err("is not as the daemon wrote it, and the next request replaces it".to_owned())
            );
        }
        fs::remove_file(&copy).unwrap();
        assert_eq!(with_copy(&copy, 1), not_fetched);
        keep(&copy, Some(second), &kept(second)).unwrap();
        assert_eq!(with_copy(&copy, 1).as_deref(), Ok(&second[..]));

        // Files of others stay.
        for (path, other) in [("rules.toml", "rules.toml"), ("rules", "rules.json")] {
            let (copy, other) = (folder.join(path), folder.join(other));
            fs::write(&other, "{}").unwrap();
            let why = keep(&copy, Some(first), &kept(first)).unwrap_err();
            assert!(
                why.ends_with(&format!(
                    "{} belongs to something else: write another path into copy, or delete it",
                    other.display()
                )),
                "{why}"
            );
            assert_eq!(fs::read(&other).unwrap(), b"{}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_copy_whose_description_is_damaged_is_set_aside_and_fetched_again() {
        let folder = std::env::temp_dir().join(format!("ratelimit-damaged-copy-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let (folder, sticky) = (folder.join("lists"), folder);
        let (copy, list) = (folder.join("drop"), b"192.0.2.1\n");
        keep(&copy, Some(list), &kept(list)).unwrap();
        fs::write(Kept::path(&copy), [0; 512]).unwrap();
        assert!(with_copy(&copy, 1).is_err());
        keep(&copy, Some(list), &kept(list)).unwrap();
        assert_eq!(with_copy(&copy, 1).as_deref(), Ok(&list[..]));
        assert!(["drop.damaged", "drop.json.damaged"].iter().all(|name| folder.join(name).exists()));
        fs::remove_dir_all(sticky).unwrap();
    }

    #[test]
    fn a_copy_in_a_folder_of_other_users_is_neither_read_nor_written() {
        let copy = std::env::temp_dir().join(format!("ratelimit-open-copy-{}", std::process::id()));
        let of_copy = Kept::path(&copy);
        let list = b"192.0.2.1\n";
        fs::write(&copy, list).unwrap();
        fs::write(&of_copy, serde_json::to_vec(&kept(list)).unwrap()).unwrap();
        let why = with_copy(&copy, 1).unwrap_err();
        assert!(why.starts_with("cannot be trusted: "), "{why}");
        assert!(keep(&copy, None, &kept(list)).is_err());
        fs::remove_file(&copy).unwrap();
        fs::remove_file(&of_copy).unwrap();
    }
}
