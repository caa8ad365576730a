//! Steps of the system's clock, and a machine that has run for ten years.

use std::{fs, process::Command};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

use super::super::{RULES, Server, of_user, text};

/// Shows a process another time of the system's clock: as many seconds away as the file in `STEP` says.
const STEP: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    long step = 0;
    int result = syscall(SYS_clock_gettime, clock, time);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("STEP"), "r") : NULL;
    if (file) {
        if (fscanf(file, "%ld", &step) == 1)
            time->tv_sec += step;
        fclose(file);
    }
    return result;
}
"#;

/// Starts a server by this command, with the command of the product behind it.
fn start(sandbox: &Sandbox, folder: Folder, mut command: Command) -> Server {
    let socket = folder.file().with_file_name("check.sock");
    folder.write(&text(&socket, RULES));
    let inner = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
    command.arg(inner.get_program()).args(inner.get_args());
    let mut daemon = Daemon::by(sandbox, command);
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: serving unix:"), "{line}");
    Server { daemon, socket, folder }
}

#[test]
fn steps_of_the_system_s_clock_change_no_limit() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let (source, step) = (folder.add("step.c", STEP), folder.add("step", "0"));
    let library = source.with_extension("so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(built.success());
    let mut command = Command::new("env");
    command.arg(format!("LD_PRELOAD={}", library.display())).arg(format!("STEP={}", step.display()));
    // The step is in force for a process that reads the system's clock.
    let mut date = Command::new("env");
    date.args(command.get_args()).args(["date", "-u", "+%Y"]);
    fs::write(&step, "-100000000000").unwrap();
    assert!(sandbox.output(&mut date).stdout.starts_with(b"-"));
    fs::write(&step, "0").unwrap();

    let server = start(&sandbox, folder, command);
    let mut allowed = 0;
    for seconds in ["0", "3600", "-3600", "86400", "-86400", "1000000000", "-1000000000", "0"] {
        fs::write(&step, seconds).unwrap();
        let answer = server.check(&of_user("17"));
        allowed += usize::from(answer.status == 200);
        assert!(answer.body["reset_ms"].as_u64().unwrap() <= 3_600_000, "{answer:?}");
    }
    assert_eq!(allowed, 3);
    server.end();
}

#[test]
fn a_machine_that_has_run_for_ten_years_has_the_same_limits() {
    let sandbox = Sandbox::new();
    let mut command = Command::new("unshare");
    command.args(["--time", "--fork", "--kill-child", "--monotonic", "315360000", "--boottime", "315360000"]);
    let server = start(&sandbox, Folder::new(), command);
    assert_eq!((0..10).filter(|_| server.check(&of_user("17")).status == 200).count(), 3);
    drop(server);
}
