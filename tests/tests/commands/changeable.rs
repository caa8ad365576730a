//! Files that other users than root may change: `check`, the daemon, `reload` and `doctor` tell what to do.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown, lchown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};

/// A user and a group other than root's.
const OTHER: u32 = 4_711;

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns what `check` warns of.
fn warnings(ratelimit: &Ratelimit<'_>, file: &Path) -> Vec<String> {
    let output = ratelimit.run(&format!("check {}", file.display()));
    assert!(output.status == 0 && output.stdout.contains(": good, with 1 interface"), "{output:?}");
    let prefix = format!("ratelimit: warning: {}: ", file.display());
    output.stderr.lines().map(|line| line.strip_prefix(&prefix).unwrap().to_owned()).collect()
}

/// Runs the command that a warning names.
fn follow(warning: &str) {
    let command = warning.split('`').nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{warning}");
}

#[test]
fn who_may_change_a_file_is_told_with_a_command_that_ends_it() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    // The path of requests is that of a file by chance.
    let [list, token, request] =
        ["list", "it's a token", "request"].map(|name| folder.add(name, &"203.0.113.7\n".repeat(3)));
    let text = format!(
        "interfaces = [\"eth0\"]\n[[list]]\nname = \"drop\"\nfile = \"{}\"\n[metrics]\nlisten = \"127.0.0.1:9\"\ntoken-file = \"{}\"\n",
        list.display(),
        token.display()
    ) + &format!(
        "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nmatch = {{ path = \"{0}\", file = \"{0}\" }}\n[serve]\nhttp = \"unix:/run/a\"\nattributes = [\"path\", \"file\"]\n",
        request.display()
    );
    permit(&request, 0o666);
    fs::write(&token, "0123456789abcdef0123456789abcdef\n").unwrap();
    folder.write(&text);
    let (file, above) = (folder.file(), folder.file().parent().unwrap().to_owned());
    let all: Vec<PathBuf> = vec![file.clone(), list, token];
    assert_eq!(warnings(&ratelimit, &file), [""; 0]);
    for path in &all {
        let shown = path.display();
        let before = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let others = if path.ends_with("it's a token") { 0 } else { 0o002 };
        for (mode, group, owner, expected) in [
            (before | others, 0, 0, format!("every user may change {shown}: run `chmod o-w ")),
            (before | 0o020, OTHER, 0, format!("group {OTHER} may change {shown}: run `chmod g-w ")),
            (before | 0o020, 0, 0, String::new()),
            (before, 0, OTHER, format!("{shown} belongs to user {OTHER}, who may change it: run `chown -h root ")),
        ] {
            chown(path, Some(owner), Some(group)).unwrap();
            permit(path, mode);
            let told = warnings(&ratelimit, &file);
            if mode == before && owner == 0 || expected.is_empty() {
                assert_eq!(told, [""; 0], "{mode:o}");
            } else {
                assert!(told.len() == 1 && told[0].starts_with(&expected), "{mode:o}: {told:?}, not {expected}");
                follow(&told[0]);
                assert_eq!(warnings(&ratelimit, &file), [""; 0], "{told:?} has not helped");
            }
            chown(path, Some(0), Some(0)).unwrap();
            permit(path, before);
        }
    }
    // A folder above them.
    permit(&above, 0o777);
    let told = warnings(&ratelimit, &file);
    // One command helps all of them.
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("every user may change {}, above {}", above.display(), file.display())));
    assert!(told[0].ends_with(&format!("{}: run `chmod o-w {}`", file.display(), above.display())), "{told:?}");
    permit(&above, 0o755);
    // It may be the home of a user, who could not log in any more. A group may have a name.
    for (owner, shown) in [(OTHER, "4711"), (65_534, "nobody")] {
        chown(&above, Some(owner), None).unwrap();
        let advice = "keep the file in a folder of root, such as /etc/ratelimit";
        let told = warnings(&ratelimit, &file);
        assert_eq!(told.len(), all.len(), "{told:?}");
        for (told, path) in told.iter().zip(&all) {
            let expected = format!("{}, above {}, belongs to user {shown}: {advice}", above.display(), path.display());
            assert_eq!(*told, expected);
        }
    }
    chown(&above, Some(0), Some(1)).unwrap();
    permit(&above, 0o775);
    assert!(
        warnings(&ratelimit, &file)[0].starts_with(&format!("group daemon may change {}, above ", above.display()))
    );
    chown(&above, Some(0), Some(0)).unwrap();
    permit(&above, 0o777);
    // Nobody can change what is mounted for reading only.
    let check = ratelimit.command(&format!("check {}", file.display()));
    let mut mounted = Command::new("unshare");
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    mounted.args(["-m", "sh", "-c", script]).arg(&above).arg(check.get_program()).args(check.get_args());
    let output = ratelimit.output(&mut mounted);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    // Others can write to a file system that is read-only for this process alone, as for a service of systemd.
    let mut mounted = Command::new("unshare");
    let script = "mount -t tmpfs -o mode=777 none \"$0\" && printf 'interfaces = [\"eth0\"]' >\"$0/ratelimit.toml\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    mounted.args(["-m", "sh", "-c", script]).arg(&above).arg(check.get_program()).args(check.get_args());
    let output = ratelimit.output(&mut mounted);
    assert!(output.stderr.contains(&format!("every user may change {}, above ", above.display())), "{output:?}");
    permit(&above, 0o1777);
    assert_eq!(warnings(&ratelimit, &file), [""; 0]);
    permit(&above, 0o755);

    // A symbolic link, and what it leads to.
    let other = Folder::new();
    let link = other.file();
    symlink(&file, &link).unwrap();
    assert_eq!(warnings(&ratelimit, &link), [""; 0]);
    lchown(&link, Some(OTHER), None).unwrap();
    assert!(warnings(&ratelimit, &link)[0].contains(" belongs to user 4711, "));
    follow(&warnings(&ratelimit, &link)[0]);
    permit(&file, 0o666);
    assert_eq!(
        warnings(&ratelimit, &link),
        [format!("every user may change {0}: run `chmod o-w {0}`", file.display())]
    );
    // The same file by standard input, and a relative path.
    let check = |words: &str| {
        let mut command = ratelimit.command(words);
        command.stdin(fs::File::open(&file).unwrap()).current_dir(&above).stdout(Stdio::null());
        ratelimit.output(&mut command).stderr
    };
    for words in ["check /dev/stdin", "check ratelimit.toml", "check ./ratelimit.toml"] {
        assert!(check(words).contains(&format!("run `chmod o-w {}`", file.display())), "{words}: {}", check(words));
    }
    // Text from a pipe has no owner.
    let output = ratelimit.run_with("check /dev/stdin", &text);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
}

#[test]
fn the_daemon_its_reload_and_doctor_tell_of_a_file_that_others_may_change() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n");
    permit(&folder.file(), 0o666);
    let told = format!("every user may change {0}: run `chmod o-w {0}`", folder.file().display());
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.contains(": in force, ") && line.ends_with(&format!("; {told}")), "{line}");
    assert!(ratelimit.ok("reload").ends_with(&format!("; {told}\n")));
    daemon.line();
    let doctor = || ratelimit.run("doctor --json").stdout;
    assert!(doctor().contains(&told), "{}", doctor());
    follow(&told);
    // Doctor looks at the file as it is now.
    assert!(!doctor().contains("every user may change"), "{}", doctor());
    assert!(ratelimit.ok("reload").ends_with("1 unchanged\n"));
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}
