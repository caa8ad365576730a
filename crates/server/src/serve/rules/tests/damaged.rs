//! Files that are damaged when the server starts.

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
