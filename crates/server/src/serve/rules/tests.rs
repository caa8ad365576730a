//! Changes of rules, with files on a real disk.

mod budgets;
mod damaged;

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use jiff::Timestamp;
use ratelimit_limiter::{MEMORY, Rule};

use super::*;
use crate::config::{
    self as requests,
    stored::{Contents, Stored},
    written::Keys,
};

const OPERATORS: &str = "[[check]]\nname = \"all\"\nlimits = \"9/s\"\n";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ratelimit-rules-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn rules(&self) -> PathBuf {
        self.0.join("rules.toml")
    }

    fn log(&self) -> PathBuf {
        self.0.join("rules.toml.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The names of the rules in force.
type Names = Arc<Mutex<Vec<String>>>;

/// A book, and the names of the rules that it has put in force.
fn open(path: &Path) -> Result<(Book, Names), String> {
    open_for(path, OPERATORS)
}

/// Opens with the rules and tokens of this text.
fn open_for(path: &Path, text: &str) -> Result<(Book, Names), String> {
    let (keeper, contents) = Keeper::open(path).map_err(|error| error.to_string())?;
    let operators = Operators::of(requests::parse(text).unwrap());
    let contents = contents.map_err(|error| error.to_string())?;
    let in_force = InForce::at_start(Arc::new(operators), contents)?;
    let names = Arc::new(Mutex::new(Vec::new()));
    let applied = Arc::clone(&names);
    let apply = move |rules: Vec<Rule>| {
        *applied.lock().unwrap() = rules.iter().map(|rule| rule.name().to_owned()).collect();
    };
    Ok((Book::new(in_force, Some(keeper), Box::new(apply)), names))
}

fn author() -> Author {
    Author { token: "team".to_owned(), address: None }
}

fn keys(limit: &str) -> Keys {
    Keys::from_iter([("limits".to_owned(), limit.into())])
}

/// Returns a change of a rule that stays as it is.
fn update<'a>(name: &'a str, version: u64, keys: &'a Keys) -> entry::Entry<'a> {
    entry::Entry {
        at: Timestamp::UNIX_EPOCH,
        server: None,
        token: "team",
        address: None,
        action: "update",
        name,
        old_version: Some(version - 1),
        version,
        undoes: None,
        old: Some(keys),
        new: Some(keys),
    }
}

fn change(book: &Book, name: &str, expected: Option<u64>, keys: Option<Keys>) -> Result<u64, RuleError> {
    book.change(&author(), &Change { name: name.to_owned(), expected, keys, undoes: None }).map(|done| done.version)
}

fn write(book: &Book, name: &str, expected: Option<u64>, limit: &str) -> Result<u64, RuleError> {
    change(book, name, expected, Some(keys(limit)))
}

#[test]
fn each_change_has_another_version_and_only_the_newest_can_be_changed() {
    let folder = Folder::new();
    let (book, names) = open(&folder.rules()).unwrap();
    assert_eq!(write(&book, "a", None, "1/s").unwrap(), 1);
    assert_eq!(*names.lock().unwrap(), ["all", "a"]);
    assert_eq!(write(&book, "a", Some(1), "2/s").unwrap(), 2);
    assert_eq!(change(&book, "a", Some(2), None).unwrap(), 3);
    assert_eq!(*names.lock().unwrap(), ["all"]);
    assert!(matches!(change(&book, "a", Some(3), None), Err(RuleError::Absent(_))));
    // A new rule of the same name has none of the versions before.
    assert_eq!(write(&book, "a", None, "1/s").unwrap(), 4);
    for expected in [None, Some(1), Some(2), Some(3), Some(5)] {
        let error = write(&book, "a", expected, "3/s").unwrap_err();
        assert_eq!(error.to_string(), "a has version 4 now: read it again, then change it");
    }
    let error = write(&book, "b", Some(4), "3/s").unwrap_err();
    assert_eq!(error.to_string(), "b has no version, because it does not exist: read it again, then change it");
    let error = write(&book, "all", None, "3/s").unwrap_err();
    assert_eq!(error.to_string(), "all is a rule of the file of this server: change it there");
    drop(book);
    let (book, _) = open(&folder.rules()).unwrap();
    assert_eq!(book.in_force().get("a").unwrap(), (Some(4), &keys("1/s")));
    let versions: Vec<_> = book.log(9).unwrap().iter().map(|entry| entry["version"].as_u64().unwrap()).collect();
    assert_eq!(versions, [4, 3, 2, 1]);
    assert_eq!(book.log(1).unwrap()[0]["action"], "create");
}

#[test]
fn exactly_one_of_many_writers_with_the_same_version_wins() {
    let folder = Folder::new();
    let (book, _) = open(&folder.rules()).unwrap();
    let first = write(&book, "a", None, "1/s").unwrap();
    for version in first..first + 10 {
        let results: Vec<_> = thread::scope(|scope| {
            let writer = |number: u32| {
                let book = &book;
                scope.spawn(move || write(book, "a", Some(version), &format!("{number}/s")))
            };
            let writers: Vec<_> = (1..5).map(writer).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let winners: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(winners, [&(version + 1)], "{results:?}");
    }
}

#[test]
fn rules_that_do_not_fit_together_are_refused() {
    let folder = Folder::new();
    let (book, names) = open(&folder.rules()).unwrap();
    let with_clients = |count: i64| {
        let clients = ("clients".to_owned(), count.into());
        Some(keys("1/s").into_iter().chain([clients]).collect::<Keys>())
    };
    // 64 bytes for each client.
    assert!(change(&book, "a", None, with_clients(1 << 22)).is_ok());
    let error = change(&book, "b", None, with_clients(64)).unwrap_err().to_string();
    assert_eq!(error, "clients: all rules of this scope with this key may take 256 MiB: give fewer clients");
    let error = write(&book, "c", None, "often").unwrap_err().to_string();
    assert!(error.starts_with("limits: \"often\": expected requests per s"), "{error}");
    assert!(matches!(book.check("all", &keys("1/s")), Err(RuleError::Operators(_))));
    assert!(matches!(book.check("d", &keys("often")), Err(RuleError::Wrong(_))));
    assert!(book.check("d", &keys("1/s")).is_ok());
    assert_eq!(*names.lock().unwrap(), ["all", "a"]);
}

#[test]
fn rules_of_callers_take_no_memory_from_those_of_the_operator() {
    let operators = Arc::new(Operators::of(requests::parse(OPERATORS).unwrap()));
    let clients = |count: u64| {
        let stored = |number| (format!("rule-{number}"), Stored { version: 1, keys: keys("1/s") });
        let contents = Contents { version: 1, fleet: None, rules: (0..count).map(stored).collect() };
        let rules = InForce::at_start(Arc::clone(&operators), contents).unwrap().rules();
        rules.iter().map(Rule::clients).collect::<Vec<_>>()
    };
    let alone = clients(0)[0];
    let with_many = clients(999);
    assert_eq!((with_many[0], with_many.len()), (alone, 1_000));
    // 64 bytes for each client.
    assert!(with_many[1..].iter().sum::<usize>() * 64 <= MEMORY && with_many[1] > 64, "{with_many:?}");
}

#[test]
fn rules_of_an_earlier_version_stay_in_the_file_and_do_not_stop_the_server() {
    let folder = Folder::new();
    let old = "version = 2\n[[check]]\nversion = 1\nname = \"log\"\nlimits = \"1/s\"\n[[check]]\nversion = 2\nname = \"old\"\n\
               limits = \"1/s\"\nkey = [\"user\"]\nipv6-prefix = 48\n";
    fs::write(folder.rules(), old).unwrap();
    let (book, names) = open(&folder.rules()).unwrap();
    assert_eq!(write(&book, "a", None, "1/s").unwrap(), 3);
    assert_eq!(*names.lock().unwrap(), ["all", "a", "old"]);
    let left_out: Vec<_> = book.in_force().left_out().map(|(_, problem)| problem.to_owned()).collect();
    assert_eq!(left_out, ["rule log: name: \"log\": this name is reserved: choose another name"]);
    let kept = requests::stored::parse(&fs::read_to_string(folder.rules()).unwrap()).unwrap().rules;
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["a", "log", "old"]);
    // A change has the new bounds.
    let with_prefix = kept["old"].keys.clone();
    assert!(with_prefix.contains_key("ipv6-prefix"));
    assert!(matches!(change(&book, "old", Some(2), Some(with_prefix)), Err(RuleError::Wrong(_))));
    assert_eq!(write(&book, "old", Some(2), "2/s").unwrap(), 4);
}

#[test]
fn a_log_is_read_while_a_rule_is_changed() {
    let folder = Folder::new();
    let (book, _) = open(&folder.rules()).unwrap();
    write(&book, "a", None, "1/s").unwrap();
    // The read goes on after the turn of changes.
    let read = book.last_changes().unwrap();
    write(&book, "a", Some(1), "2/s").unwrap();
    assert!(!read(9, &|_| true).unwrap().is_empty());
    // Changes of others take no place.
    assert_eq!(book.log_of(1, &|name| name == "b").unwrap().len(), 0);
    write(&book, "b", None, "1/s").unwrap();
    let log = book.log_of(1, &|name| name == "a").unwrap();
    assert_eq!((log.len(), &log[0]["name"], &log[0]["version"]), (1, &"a".into(), &2.into()));
}

#[test]
fn a_second_server_does_not_take_the_same_file() {
    let folder = Folder::new();
    let first = open(&folder.rules()).unwrap();
    let error = open(&folder.rules()).map(drop).unwrap_err();
    assert!(error.contains("another server has") && error.ends_with(": choose another path"), "{error}");
    drop(first);
    assert!(open(&folder.rules()).is_ok());
}

#[test]
fn a_log_that_cannot_be_written_refuses_the_change() {
    let folder = Folder::new();
    let (book, names) = open(&folder.rules()).unwrap();
    write(&book, "a", None, "1/s").unwrap();
    fs::remove_file(folder.log()).unwrap();
    fs::create_dir(folder.log()).unwrap();
    let error = write(&book, "b", None, "1/s").unwrap_err().to_string();
    assert!(error.starts_with("nothing is changed: the log of changes: "), "{error}");
    assert_eq!(*names.lock().unwrap(), ["all", "a"]);
    assert!(!fs::read_to_string(folder.rules()).unwrap().contains("\"b\""));
}

#[test]
fn rules_that_cannot_be_written_leave_no_line_in_the_log() {
    let folder = Folder::new();
    let (book, names) = open(&folder.rules()).unwrap();
    write(&book, "a", None, "1/s").unwrap();
    let before = fs::read(folder.log()).unwrap();
    // The new file cannot be created there.
    let new = folder.0.join("rules.toml.new");
    fs::create_dir(&new).unwrap();
    let error = write(&book, "a", Some(1), "2/s").unwrap_err().to_string();
    assert!(error.starts_with("nothing is changed: ") && error.contains("rules.toml: "), "{error}");
    assert_eq!(fs::read(folder.log()).unwrap(), before);
    assert_eq!(*names.lock().unwrap(), ["all", "a"]);
    assert_eq!(book.in_force().get("a").unwrap(), (Some(1), &keys("1/s")));
    fs::remove_dir(&new).unwrap();
    assert!(write(&book, "a", Some(1), "2/s").unwrap() > 1);
}

#[test]
fn a_change_that_a_killed_server_has_only_logged_is_undone_in_the_log() {
    let folder = Folder::new();
    let (book, _) = open(&folder.rules()).unwrap();
    write(&book, "a", None, "1/s").unwrap();
    let kept = fs::read(folder.rules()).unwrap();
    write(&book, "a", Some(1), "2/s").unwrap();
    drop(book);
    fs::write(folder.rules(), kept).unwrap();
    OpenOptions::new().append(true).open(folder.log()).unwrap().write_all(b"{\"at\": \"half a li").unwrap();
    for _ in 0..2 {
        let (book, _) = open(&folder.rules()).unwrap();
        assert_eq!(book.in_force().get("a").unwrap().0, Some(1));
        let log = book.log(9).unwrap();
        let of = |number: usize| (log[number]["action"].as_str().unwrap(), log[number]["version"].as_u64().unwrap());
        assert_eq!([of(0), of(1), of(2)], [("undone", 2), ("update", 2), ("create", 1)]);
        assert_eq!(log.len(), 3);
    }
    let (book, _) = open(&folder.rules()).unwrap();
    // No version is used twice.
    assert_eq!(write(&book, "a", Some(1), "3/s").unwrap(), 3);
}

#[test]
fn a_log_begins_a_new_file_and_keeps_one_older_one() {
    let folder = Folder::new();
    let mut audit = audit::Audit::open(&folder.rules(), Some(0));
    audit.limit(2_000);
    let rule = keys("1/s");
    for version in 1..100 {
        audit.add(&update("a", version, &rule), &teams::Teams::default()).unwrap();
    }
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&folder.log()) <= 2_000 && size(&folder.0.join("rules.toml.log.1")) <= 2_000);
    let versions: Vec<_> = audit::last(audit.files().unwrap(), 10, &|_| true)
        .unwrap()
        .iter()
        .map(|entry| entry["version"].as_u64().unwrap())
        .collect();
    assert_eq!(versions, (90..100).rev().collect::<Vec<_>>());
}
