//! What `ratelimit serve` keeps about clients, and what `ratelimit usage` shows of it.

use std::{
    fs::{self, File, Permissions},
    os::{
        fd::AsRawFd as _,
        unix::fs::{PermissionsExt as _, chown},
    },
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{RULES, Server, of_user, text};

/// A server that keeps usage in a file of another folder.
struct Stage<'a> {
    ratelimit: Ratelimit<'a>,
    server: Server,
    file: PathBuf,
    _folder: Folder,
}

impl<'a> Stage<'a> {
    fn new(sandbox: &'a Sandbox, rules: &str) -> Self {
        let folder = Folder::new();
        let file = folder.file().with_file_name("usage.db");
        let server = Server::start(sandbox, &format!("usage = \"{}\"\n{rules}", file.display()));
        Self { ratelimit: Ratelimit::new(sandbox), server, file, _folder: folder }
    }

    /// Asks so many times, and returns how often the answer was yes.
    fn ask(&self, user: &str, times: usize) -> usize {
        (0..times).filter(|_| self.server.check(&of_user(user)).status == 200).count()
    }

    fn usage(&self, words: &str) -> Value {
        let words = format!("usage {words} --file {} --json", self.file.display());
        let output = self.ratelimit.run(&words);
        assert!(output.status < 2, "{output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Waits until the server has written as many requests of the user.
    fn wait(&self, user: &str, requests: u64) {
        wait_until("the server writes its usage", || {
            sum(&self.usage(&format!("user={user}")), &["admitted", "refused"]) >= requests
        });
    }
}

/// Adds up fields of all rows, of which an hour that ends meanwhile makes two.
fn sum(rows: &Value, fields: &[&str]) -> u64 {
    let rows = rows.as_array().unwrap();
    rows.iter().flat_map(|row| fields.iter().map(|field| row[*field].as_u64().unwrap())).sum()
}

fn totals(rows: &Value) -> [u64; 3] {
    ["admitted", "cost", "refused"].map(|field| sum(rows, &[field]))
}

/// Locks a file as a process of SQLite does that writes to it, until the files are dropped. SQLite itself cannot run in this
/// program: the kernel side is linked in, whose `memset` returns nothing.
fn lock(path: &Path) -> [File; 2] {
    let shared = PathBuf::from(format!("{}-shm", path.display()));
    let files = [path, &shared].map(|path| File::options().read(true).write(true).open(path).unwrap());
    // The places are those of the file format: readers of the file, the writer of the log, and users of the log.
    for (file, kind, start, length) in
        [(0, libc::F_RDLCK, 0x4000_0002, 510), (1, libc::F_WRLCK, 120, 1), (1, libc::F_RDLCK, 128, 1)]
    {
        let range = libc::flock {
            l_type: kind.try_into().unwrap(),
            l_whence: libc::SEEK_SET.try_into().unwrap(),
            l_start: start,
            l_len: length,
            l_pid: 0,
        };
        // SAFETY: The descriptor is open, and the kernel only reads the range.
        let result = unsafe { libc::fcntl(files[file].as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
    files
}

#[test]
fn hours_of_a_client_are_there_while_the_server_runs_and_its_end_writes_the_rest() {
    let sandbox = Sandbox::new();
    let all = "[[check]]\nname = \"all\"\nlimits = \"1000/h\"\n[[check]]\nname = \"shadow\"\nkey = [\"user\", \
               \"operation\"]\nlimits = \"1/h\"\nshadow = true\n";
    let stage = Stage::new(&sandbox, &format!("{RULES}{all}"));
    assert_eq!((stage.ask("17", 5), stage.ask("18", 1)), (3, 1));
    let batch = json!({"requests": vec![of_user("19"); 4]}).to_string();
    assert_eq!(stage.server.call("POST /v1/check/batch HTTP/1.1", &batch).status, 429);
    stage.wait("17", 10);
    assert_eq!(totals(&stage.usage("user=17 --rule create-url")), [3, 3, 2]);
    // The rule in shadow would have refused all but the first.
    assert_eq!(totals(&stage.usage("user=17 operation=createURL")), [1, 1, 4]);
    assert_eq!(totals(&stage.usage("user=19 --rule create-url")), [0, 0, 1]);
    let top = stage.usage("--top 2");
    assert_eq!(
        (&top[0]["client"], top.as_array().unwrap().len()),
        (&json!({"operation": "createURL", "user": "17"}), 2)
    );
    // A request that is refused counts under the rule that refuses it only.
    let top = stage.usage("--sort admitted --rule all");
    assert_eq!((&top[0]["client"], totals(&top)), (&json!({}), [4, 4, 0]));
    assert_eq!(stage.ask("17", 2), 0);
    let Stage { ratelimit, server, file, _folder } = stage;
    let config = server.folder.file().display().to_string();
    let shown = format!("usage user=17 --rule create-url --by day -c {config}");
    let Server { mut daemon, socket: _, folder } = server;
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
    let shown = ratelimit.ok(&shown);
    let lines: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[0], ["day", "rule", "client", "admitted", "cost", "refused", "last", "seen"]);
    assert_eq!(lines[1][1..6], ["create-url", "user=17", "3", "3", "4"], "{shown}");
    let rows = ratelimit.json(&format!("usage user=17 --rule create-url --by day -c {config}"));
    let row = &rows[0];
    assert!(row["start_at"].as_str().unwrap().ends_with("T00:00:00Z") && row["last_seen_at"].is_string(), "{row}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
    drop(folder);
}

#[test]
fn a_locked_file_refuses_no_request_and_gets_all_of_them_later() {
    let sandbox = Sandbox::new();
    let mut stage = Stage::new(&sandbox, RULES);
    let locks = lock(&stage.file);
    assert_eq!(stage.ask("17", 5), 3);
    let line = stage.server.daemon.line();
    let expected = format!(
        "ratelimit: usage waits in memory until its file can be written: {}: database is locked",
        stage.file.display()
    );
    assert_eq!(line, expected);
    assert_eq!(stage.ask("18", 3), 3);
    let page = stage.server.call("GET /metrics HTTP/1.1", "").body;
    let page = page.as_str().unwrap();
    assert!(page.contains("\nratelimit_check_usage_lost_total 0\n"), "{page}");
    let failures = page.lines().find_map(|line| line.strip_prefix("ratelimit_check_usage_failed_writes_total "));
    assert_ne!(failures.unwrap(), "0");
    drop(locks);
    assert_eq!(stage.server.daemon.line(), "ratelimit: usage is written to its file again");
    assert_eq!((totals(&stage.usage("user=17")), totals(&stage.usage("user=18"))), ([3, 3, 2], [3, 3, 0]));
    stage.server.end();
}

#[test]
fn a_file_that_its_user_may_only_read_refuses_no_request_and_is_written_once_it_may() {
    let sandbox = Sandbox::new();
    let (folder, ratelimit) = (Folder::new(), Ratelimit::new(&sandbox));
    let socket = folder.file().with_file_name("check.sock");
    let usage = folder.add("usage.db", "");
    fs::set_permissions(&usage, Permissions::from_mode(0o644)).unwrap();
    folder.write(&text(&socket, &format!("usage = \"{}\"\n{RULES}", usage.display())));
    let folder_path = folder.file().parent().unwrap().to_owned();
    chown(&folder_path, Some(65_534), Some(65_534)).unwrap();
    let binary = ratelimit.copy_into(&folder_path);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
    command.arg(&binary).args(["serve", "-c"]).arg(folder.file());
    let mut daemon = Daemon::by(&sandbox, command);
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: usage waits in memory until its file can be written: "), "{line}");
    assert!(daemon.line().starts_with("ratelimit: serving unix:"));
    let mut server = Server { daemon, socket, folder };
    assert_eq!(server.check(&of_user("17")).status, 200);
    chown(&usage, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(&usage, Permissions::from_mode(0o640)).unwrap();
    assert_eq!(server.daemon.line(), "ratelimit: usage is written to its file again");
    server.end();
}

#[test]
fn a_group_reads_the_file_while_the_server_runs_and_after_its_end() {
    let sandbox = Sandbox::new();
    let stage = Stage::new(&sandbox, RULES);
    stage.ask("17", 1);
    stage.wait("17", 1);
    let binary = stage.ratelimit.copy_into(stage.file.parent().unwrap());
    let file = stage.file.clone();
    let read = |group: u32| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", &format!("--regid={group}"), "--clear-groups", "--bounding-set=-all"]);
        let output = command.arg(&binary).args(["usage", "user=17", "--file"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(read(0), (Some(0), String::new()));
    let refused = "cannot open the file: this user needs its group, and the server also needs to write to its folder";
    assert_eq!(read(65_534), (Some(2), format!("ratelimit: {}: {refused}\n", file.display())));
    let Stage { server, _folder, .. } = stage;
    server.end();
    assert_eq!(read(0), (Some(0), String::new()));
}

#[test]
fn a_reload_keeps_totals_by_the_name_of_the_rule_and_other_settings_need_a_restart() {
    let sandbox = Sandbox::new();
    let mut stage = Stage::new(&sandbox, RULES);
    assert_eq!(stage.ask("17", 4), 3);
    let rules = format!("usage = \"{}\"\n{}", stage.file.display(), RULES.replace("3/m", "4/m"));
    stage.server.folder.write(&text(&stage.server.socket, &rules));
    stage.server.daemon.process.signal(Signal::HUP);
    assert_eq!(stage.server.daemon.line(), "ratelimit: 1 rule in force");
    assert_eq!(stage.ask("17", 2), 1);
    stage.server.folder.write(&text(&stage.server.socket, RULES));
    stage.server.daemon.process.signal(Signal::HUP);
    let line = "ratelimit: `usage` in [serve] needs a restart: what was removed stays in use";
    assert_eq!(stage.server.daemon.line(), line);
    stage.wait("17", 6);
    assert_eq!(totals(&stage.usage("user=17")), [4, 4, 2]);
    stage.server.end();
}

#[test]
fn files_and_clients_that_are_not_there_get_one_clear_line() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let usage = folder.file().with_file_name("usage.db");
    let config = folder.file().display().to_string();
    folder.write(&text(&usage.with_file_name("check.sock"), RULES));
    let error = ratelimit.fails(&format!("usage -c {config}"));
    assert_eq!(error, format!("ratelimit: {config}: no usage is kept: add `usage` to the table [serve]"));
    let error = ratelimit.fails(&format!("usage --file {}", usage.display()));
    let name = "name the file of the key `usage` in [serve], or the configuration by --config";
    assert_eq!(error, format!("ratelimit: {}: no such file: {name}", usage.display()));
    for wrong in [config.clone(), usage.parent().unwrap().display().to_string(), "/bin/ls".to_owned()] {
        let error = ratelimit.fails(&format!("usage --file {wrong}"));
        assert_eq!(error, format!("ratelimit: {wrong}: this is no file with usage: {name}"));
    }
    let error = ratelimit.fails(&format!("usage --top 0 --file {}", usage.display()));
    assert_eq!(
        error,
        "ratelimit: invalid value '0' for '--top <N>': 0 is not in 1..=4294967295 (see `ratelimit help usage`)"
    );
    for (words, expected) in [
        ("usage", "were not provided: <--config <FILE>|--file <FILE>>"),
        ("usage --by day --file FILE", "--by needs the attributes of a client, such as user=17"),
        ("usage user=17 user=18 --file FILE", "user is there twice: a client has one value of each attribute"),
    ] {
        let error = ratelimit.fails(words);
        assert!(error.contains(expected), "{error}");
    }
    fs::write(&usage, "not a database, but text of some length").unwrap();
    let rules = format!("usage = \"{}\"\n{RULES}", usage.display());
    folder.write(&text(&usage.with_file_name("check.sock"), &rules));
    let wrong = format!(
        "ratelimit: {}: this is no file with usage: choose the path in `usage` of [serve], or another one for a new file",
        usage.display()
    );
    assert_eq!(ratelimit.fails(&format!("usage -c {config}")), wrong);
    assert_eq!(fs::read_to_string(&usage).unwrap(), "not a database, but text of some length");
    let stage = Stage::new(&sandbox, RULES);
    for (since, earlier) in [("--since 29d", "earlier: --since 30d; "), ("--since 30d", "")] {
        let output = stage.ratelimit.run(&format!("usage user=17 {since} --file {}", stage.file.display()));
        assert!(output.status == 1 && output.stdout.starts_with("user=17: nothing known since "), "{output:?}");
        let tip = format!("({earlier}clients: `ratelimit usage --file {}`)\n", stage.file.display());
        assert!(output.stdout.ends_with(&tip), "{output:?}");
    }
    assert_eq!(stage.usage("user=17"), json!([]));
    assert_eq!(stage.usage(""), json!([]));
    let error = stage.ratelimit.fails(&format!("usage -c {}", stage.file.display()));
    assert!(error.ends_with("this is no text: if it is the file with usage, name it by --file"), "{error}");
    // A rule that nobody has used is not the fault of the client.
    assert_eq!(stage.ask("17", 1), 1);
    stage.wait("17", 1);
    for client in ["", "user=17 "] {
        let error = stage.ratelimit.fails(&format!("usage {client}--rule other --file {}", stage.file.display()));
        let expected = "--rule: there is no usage under the rule other: rules with usage are create-url";
        assert!(error.ends_with(expected), "{error}");
    }
    let error = stage.ratelimit.fails(&format!("usage usr=17 --file {}", stage.file.display()));
    assert_eq!(error, "ratelimit: no client has the attribute usr: attributes with usage are user");
    stage.server.end();
}
