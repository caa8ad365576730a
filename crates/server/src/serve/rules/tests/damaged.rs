//! Files that are damaged when the server starts.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn a_damaged_log_gets_another_name_and_keeps_no_change_from_being_made() {
    for damage in [vec![0xab; 300 << 10], b"\xff\xfe no change\n{}\n".to_vec(), vec![0; 4_096]] {
        let folder = Folder::new();
        write(&open(&folder.rules()).unwrap().0, "a", None, "1/s").unwrap();
        fs::write(folder.log(), &damage).unwrap();
        let (book, names) = open(&folder.rules()).unwrap();
        assert_eq!(book.in_force().get("a").unwrap().0, Some(1));
        assert_eq!(write(&book, "a", Some(1), "2/s").unwrap(), 2);
        assert_eq!(*names.lock().unwrap(), ["all", "a"]);
        let log = book.log(9).unwrap();
        assert_eq!((log.len(), &log[0]["version"]), (1, &2.into()));
        assert_eq!(folder.0.join("rules.toml.log.damaged").exists(), damage.len() > 100 << 10);
    }
}

#[test]
fn a_log_that_cannot_be_opened_keeps_no_rule_from_being_in_force() {
    let folder = Folder::new();
    write(&open(&folder.rules()).unwrap().0, "a", None, "1/s").unwrap();
    fs::remove_file(folder.log()).unwrap();
    fs::create_dir(folder.log()).unwrap();
    let (book, _) = open(&folder.rules()).unwrap();
    assert_eq!(book.in_force().get("a").unwrap().0, Some(1));
    let error = write(&book, "a", Some(1), "2/s").unwrap_err().to_string();
    assert!(error.starts_with("nothing is changed: the log of changes: "), "{error}");
    fs::remove_dir(folder.log()).unwrap();
    assert_eq!(write(&book, "a", Some(1), "2/s").unwrap(), 2);
}

#[test]
fn an_older_log_that_cannot_be_read_gets_another_name_and_keeps_no_change_from_being_made() {
    let folder = Folder::new();
    let mut audit = audit::Audit::open(&folder.rules(), Some(0));
    audit.limit(1_000);
    let older = folder.0.join("rules.toml.log.1");
    // It stands for a file with blocks that the disk cannot read.
    fs::create_dir(&older).unwrap();
    let rule = keys("1/s");
    for version in 1..20 {
        let (old, new) = (Some(&rule), Some(&rule));
        let (at, old_version) = (Timestamp::UNIX_EPOCH, Some(version - 1));
        let entry = entry::Entry {
            at,
            server: None,
            token: "team",
            address: None,
            action: "update",
            name: "a",
            old_version,
            version,
            undoes: None,
            old,
            new,
        };
        audit.add(&entry, &teams::Teams::default()).unwrap();
    }
    assert!(older.is_file() && folder.0.join("rules.toml.log.1.damaged").is_dir());
    let log = audit::last(audit.files().unwrap(), 9, &|_| true).unwrap();
    assert_eq!((log[0]["version"].as_u64(), log[5]["version"].as_u64()), (Some(19), Some(14)));
}

#[test]
fn a_missing_folder_keeps_the_rules_of_the_operator_in_force_and_refuses_changes_until_it_is_there() {
    let folder = Folder::new();
    let path = folder.0.join("later").join("rules.toml");
    let (keeper, contents) = Keeper::open(&path).unwrap();
    let problem = contents.unwrap_err().to_string();
    assert!(problem.ends_with("does its folder exist, and may this user write there?"), "{problem}");
    let operators = || Operators::of(requests::parse(OPERATORS).unwrap());
    let in_force = InForce::at_start(Arc::new(operators()), Contents::default()).unwrap();
    let book = Book::new(in_force, Some(keeper), Box::new(|_| ()));
    let refused = write(&book, "a", None, "1/s").unwrap_err().to_string();
    assert_eq!(refused, format!("nothing is changed: {problem}"));
    assert_eq!((book.reload(operators()).unwrap_err(), book.log(9).is_err()), (problem, true));
    assert!(book.in_force().rule("all").is_some());
    fs::create_dir(path.parent().unwrap()).unwrap();
    assert!(book.reload(operators()).is_ok());
    assert_eq!(write(&book, "a", None, "1/s").unwrap(), 1);
}

/// A server in a fleet whose engine does not answer.
fn joined(path: &Path, runtime: &tokio::runtime::Runtime) -> (Keeper, Result<Contents, StoreError>) {
    let (_, link) = tokio::sync::watch::channel(None);
    let (name, runtime) = ("a".to_owned(), runtime.handle().clone());
    Keeper::in_fleet(path, Member { name, link, runtime, shown: Arc::default() }).unwrap()
}

#[test]
fn only_a_damaged_copy_of_the_rules_of_a_fleet_gets_another_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let good = "version = 7\nfleet = \"f\"\n[[check]]\nversion = 7\nname = \"a\"\nlimits = \"1/s\"\n";
    let later = format!("later = true\n{good}");
    for (bytes, mode, is_damage) in [
        (good.as_bytes(), 0o622, false),
        (later.as_bytes(), 0o600, false),
        (b"", 0o600, true),
        (&[0; 4_096], 0o600, true),
        (&[0xff; 9], 0o600, true),
        (&good.as_bytes()[..good.len() - 2], 0o600, true),
    ] {
        let folder = Folder::new();
        fs::write(folder.rules(), bytes).unwrap();
        fs::set_permissions(folder.rules(), fs::Permissions::from_mode(mode)).unwrap();
        let (_, contents) = joined(&folder.rules(), &runtime);
        assert_eq!(contents.is_ok(), is_damage, "{contents:?}");
        let aside = folder.0.join("rules.toml.damaged");
        assert_eq!((aside.exists(), folder.rules().exists()), (is_damage, !is_damage));
        assert_eq!(fs::read(if is_damage { aside } else { folder.rules() }).unwrap(), bytes);
    }
    let folder = Folder::new();
    fs::write(folder.rules(), good).unwrap();
    assert_eq!(joined(&folder.rules(), &runtime).1.unwrap().rules.len(), 1);
}

#[test]
fn rules_of_callers_that_do_not_fit_are_left_out_at_the_start_and_the_others_can_be_changed() {
    let folder = Folder::new();
    let (book, _) = open(&folder.rules()).unwrap();
    write(&book, "a", None, "1/s").unwrap();
    write(&book, "b", None, "1/s").unwrap();
    drop(book);
    // The operator has taken a name, and somebody has changed the file.
    let text = fs::read_to_string(folder.rules()).unwrap().replacen("\"1/s\"", "\"often\"", 1);
    fs::write(folder.rules(), text + "[[check]]\nversion = 2\nname = \"all\"\nlimits = \"1/s\"\n").unwrap();
    let (book, names) = open(&folder.rules()).unwrap();
    let left_out: Vec<_> = book.in_force().left_out().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(left_out, ["a", "all"]);
    assert_eq!(write(&book, "b", Some(2), "2/s").unwrap(), 3);
    assert_eq!(*names.lock().unwrap(), ["all", "b"]);
    // A change of the file by hand while the server runs is refused as a whole.
    let text = fs::read_to_string(folder.rules()).unwrap().replace("\"2/s\"", "\"never\"");
    fs::write(folder.rules(), text).unwrap();
    assert!(matches!(write(&book, "b", Some(3), "3/s"), Err(RuleError::Unwritable(_))));
    assert!(book.reload(Operators::of(requests::parse(OPERATORS).unwrap())).is_err());
    assert_eq!(*names.lock().unwrap(), ["all", "b"]);
}
