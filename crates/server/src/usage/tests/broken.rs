//! Files that cannot be written, or that belong to something else.

use rusqlite::Connection;

use super::*;

const NO_USAGE: &str =
    "this is no file with usage: choose the path in `usage` of [serve], or another one for a new file";

#[test]
fn a_file_of_something_else_or_of_a_later_version_is_refused_and_not_changed() {
    let stage = Stage::new(100);
    let path = stage.settings().path;
    stage.writer().write(NOON).unwrap();
    let own = fs::read(&path).unwrap();
    let change = |query: &str| {
        fs::write(&path, &own).unwrap();
        Connection::open(&path).unwrap().execute_batch(query).unwrap();
        fs::read(&path).unwrap()
    };
    let later = change("PRAGMA user_version = 2");
    let foreign = change("PRAGMA application_id = 7");
    let mut other_database = change("PRAGMA application_id = 0");
    other_database[100..200].fill(0xab);
    for (bytes, expected) in [
        (later, "a later version of ratelimit wrote this file: install that version, or choose another path"),
        (foreign, NO_USAGE),
        (vec![b'x'; 5_000], NO_USAGE),
        // An archive, a program, another database that is damaged, and a short file.
        ([&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &[0xab; 5_000]].concat(), NO_USAGE),
        ([&b"\x7fELF\x02\x01\x01\0"[..], &[0; 5_000]].concat(), NO_USAGE),
        (other_database, NO_USAGE),
        (vec![0xab; 9], NO_USAGE),
    ] {
        fs::write(&path, &bytes).unwrap();
        let errors = [stage.writer().write(NOON).unwrap_err(), Reader::open(&path).unwrap_err()];
        for error in errors {
            assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
        }
        assert!(fs::read(&path).unwrap() == bytes, "{expected}");
    }
    fs::remove_file(&path).unwrap();
    let missing = Reader::open(&path).unwrap_err().to_string();
    assert!(
        missing.ends_with("usage.db: no such file: a server creates the file that `usage` in its table [serve] names")
    );
}

#[test]
fn a_locked_file_keeps_usage_in_memory_until_it_is_free() {
    let stage = Stage::new(100);
    let mut writer = stage.writer();
    stage.ask("17", 1, NOON);
    writer.write(NOON).unwrap();
    let other = Connection::open(stage.settings().path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..2 {
        stage.ask("17", 1, NOON);
        let error = writer.write(NOON).unwrap_err();
        assert!(error.to_string().ends_with("database is locked"), "{error}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    writer.write(NOON).unwrap();
    assert_eq!((stage.of("17", Step::Hour), stage.recorder.lost()), (vec![(NOON, [3, 3, 0])], 0));
}

#[test]
fn a_full_disk_keeps_usage_in_memory_and_memory_stays_bounded() {
    let stage = Stage::new(100);
    let mut writer = stage.writer();
    // A folder that is missing stands for all that fails at once.
    let away = stage.folder.with_extension("away");
    fs::rename(&stage.folder, &away).unwrap();
    for round in 0..3 {
        for user in 0..MOST {
            stage.ask(&format!("{round}-{user}"), 1, NOON);
        }
        assert!(writer.write(NOON).is_err());
        assert_eq!(stage.recorder.lost(), (round * MOST) as u64);
    }
    fs::rename(&away, &stage.folder).unwrap();
    writer.write(NOON).unwrap();
    assert_eq!(stage.of("0-0", Step::Hour), [(NOON, [1, 1, 0])]);
    assert_eq!(stage.of("1-0", Step::Hour), []);
}

#[test]
fn a_file_that_is_removed_or_replaced_is_created_anew() {
    let stage = Stage::new(100);
    let mut writer = stage.writer();
    let path = stage.settings().path;
    stage.ask("17", 1, NOON);
    writer.write(NOON).unwrap();
    for name in fs::read_dir(&stage.folder).unwrap() {
        fs::remove_file(name.unwrap().path()).unwrap();
    }
    stage.ask("18", 1, NOON);
    writer.write(NOON).unwrap();
    assert_eq!((stage.of("17", Step::Hour), stage.of("18", Step::Hour).len()), (vec![], 1));
    fs::rename(&path, stage.folder.join("archive.db")).unwrap();
    stage.ask("19", 1, NOON);
    writer.write(NOON).unwrap();
    assert_eq!((stage.of("18", Step::Hour), stage.of("19", Step::Hour).len()), (vec![], 1));
}

#[test]
fn a_file_that_its_server_has_closed_is_one_file_that_can_be_read_alone() {
    let stage = Stage::new(100);
    stage.ask("17", 1, NOON);
    stage.writer().write(NOON).unwrap();
    let names: Vec<_> = fs::read_dir(&stage.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["usage.db"]);
    // Bytes 18 and 19 of the format are 1 without a log, which a reader would have to create.
    assert_eq!(fs::read(stage.settings().path).unwrap()[18..20], [1, 1]);
}

#[test]
fn a_damaged_file_gets_another_name_and_usage_goes_on_in_a_new_one() {
    // The first page, the rest, the beginning of the tables, and a single byte.
    for (number, damage) in [0..4_096, 4_096..usize::MAX, 100..200, 0..1].into_iter().enumerate() {
        let stage = Stage::new(100);
        let path = stage.settings().path;
        let mut writer = stage.writer();
        assert!((0..100).all(|user| stage.ask(&user.to_string(), 1, NOON)));
        writer.write(NOON).unwrap();
        drop(writer);
        let mut bytes = fs::read(&path).unwrap();
        let end = damage.end.min(bytes.len());
        bytes[damage.start..end].fill(if number % 2 == 0 { 0 } else { 0xab });
        fs::write(&path, &bytes).unwrap();
        fs::write(stage.folder.join("usage.db-wal"), "of the damaged file").unwrap();
        stage.ask("17", 1, NOON + HOUR);
        let mut writer = stage.writer();
        let aside = writer.write(NOON + HOUR).unwrap();
        assert_eq!(aside, Some(stage.folder.join("usage.db.damaged")), "{number}");
        assert_eq!(stage.of("17", Step::Hour), [(NOON + HOUR, [1, 1, 0])], "{number}");
        assert_eq!(writer.write(NOON + HOUR).unwrap(), None);
    }
}

#[test]
fn files_that_are_damaged_again_and_again_leave_one() {
    let stage = Stage::new(100);
    let path = stage.settings().path;
    for round in 0..3 {
        stage.ask("17", 1, NOON + round * HOUR);
        stage.writer().write(NOON).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[..4_096].fill(0);
        fs::write(&path, bytes).unwrap();
        assert!(stage.writer().write(NOON + HOUR).unwrap().is_some());
    }
    let mut names: Vec<_> = fs::read_dir(&stage.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["usage.db", "usage.db.damaged"]);
}
