//! The service manager: a socket that receives a service's messages, and systemd as process 1 of a sandbox.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, Process, Ratelimit, Sandbox};

/// A socket for messages of sd_notify(3), in the sandbox's /run.
#[derive(Debug)]
pub struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifySocket {
    /// Creates the socket.
    ///
    /// # Panics
    ///
    /// If the name exists.
    #[must_use]
    pub fn new(sandbox: &Sandbox, name: &str) -> Self {
        let path = Path::new("/run").join(name);
        let socket = sandbox.victim(|| UnixDatagram::bind(&path)).expect("cannot make a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("cannot set a time limit");
        Self { socket, path }
    }

    /// Returns the value for the variable NOTIFY_SOCKET.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the next message.
    ///
    /// # Panics
    ///
    /// If there is none within a minute.
    #[must_use]
    pub fn message(&self) -> String {
        let mut buffer = [0; 4_096];
        let length = self.socket.recv(&mut buffer).expect("no message came");
        String::from_utf8(buffer[..length].to_vec()).expect("messages are UTF-8")
    }
}

/// systemd with the product and its unit, and no other service except the journal. Killed on drop.
#[derive(Debug)]
pub struct Systemd<'a> {
    sandbox: &'a Sandbox,
    process: Process,
    cgroup: PathBuf,
    /// Where it looks for units, unless where it always does.
    units: Option<&'static str>,
}

/// Targets that a unit is ordered after.
const TARGETS: [&str; 5] = ["sysinit", "basic", "network-pre", "network", "sandbox"];
/// Units of the journal.
const JOURNAL: [&str; 3] = ["systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"];
/// Folder of the units.
const UNITS: &str = "/run/units";

impl<'a> Systemd<'a> {
    /// Starts systemd with this unit.
    ///
    /// # Panics
    ///
    /// Without systemd, or without cgroups of version 2.
    #[must_use]
    pub fn start(sandbox: &'a Sandbox, ratelimit: &Ratelimit<'_>, unit: &str) -> Self {
        sandbox.victim(|| install(unit));
        let script = "set -e; here=$1; binary=$2
            mount --bind $binary /run/sbin/ratelimit; mount --rbind /run/sbin /usr/local/sbin; mount --bind /run/etc /etc; mount --bind /run/lib /var/lib
            mount -t cgroup2 cgroup2 /run/cgroup; mkdir $here; echo $$ > $here/cgroup.procs
            exec unshare --pid --fork --kill-child --cgroup --mount --propagation unchanged sh -ec '
                exec 2>&3; mount -t proc proc /proc; mount --bind /run/meminfo /proc/meminfo; mount -t cgroup2 cgroup2 /sys/fs/cgroup
                exec /lib/systemd/systemd --system --unit=sandbox.target --show-status=no --log-target=journal
            ' 3>&2 2>/dev/null";
        let binary = ratelimit.command("").get_program().to_owned();
        Self::boot(sandbox, script, Path::new(&binary), "/run/ready", Some(UNITS))
    }

    /// Starts the systemd of another root, which has no unit but those of packages that are installed there.
    ///
    /// # Panics
    ///
    /// Without cgroups of version 2.
    #[must_use]
    pub fn in_root(sandbox: &'a Sandbox, root: &Path) -> Self {
        // Units of the root would set parameters of the whole kernel.
        let script = "set -e; here=$1; root=$2
            mkdir -p /run/cgroup; mount -t cgroup2 cgroup2 /run/cgroup; mkdir $here; echo $$ > $here/cgroup.procs
            cd $root/usr/lib/systemd; rm -rf system/*.wants system-generators ../../../etc/systemd/system/*.wants
            printf '[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service\n' > system/sandbox.target
            touch $root/ready; mount --bind /run/ready $root/ready
            exec unshare --pid --fork --kill-child --cgroup --mount --propagation unchanged sh -ec '
                exec 2>&3; mount -t proc proc $0/proc; mount --bind /run/meminfo $0/proc/meminfo; mount -t cgroup2 cgroup2 $0/sys/fs/cgroup
                exec chroot $0 /lib/systemd/systemd --system --unit=sandbox.target --show-status=no --log-target=journal
            ' $root 3>&2 2>/dev/null";
        Self::boot(sandbox, script, root, "/ready", None)
    }

    /// Runs a script that becomes systemd, with the path of a new cgroup and another one, and waits until it is ready.
    fn boot(sandbox: &'a Sandbox, script: &str, path: &Path, ready: &str, units: Option<&'static str>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let cgroup = Path::new("/run/cgroup").join(format!("ratelimit-{}-{count}", std::process::id()));
        let socket = NotifySocket::new(sandbox, "ready");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&cgroup).arg(path).stdin(Stdio::null());
        command.env("container", "sandbox").env("NOTIFY_SOCKET", ready);
        command.envs(units.map(|units| ("SYSTEMD_UNIT_PATH", units)));
        let process = sandbox.start(command);
        let systemd = Self { sandbox, process, cgroup, units };
        while !socket.message().lines().any(|line| line == "READY=1") {}
        systemd
    }

    /// Runs a command of systemd such as `systemctl`. Returns whether it succeeded, and its output.
    #[must_use]
    pub fn run(&self, words: &str) -> (bool, String) {
        // systemd answers only processes that it can see.
        let init = self.init().expect("systemd has ended");
        let mut command = Command::new("nsenter");
        command.args(["--pid", "--mount", "--root", "--wd", "--target", &init.as_raw_nonzero().to_string()]);
        command.envs(self.units.map(|units| ("SYSTEMD_UNIT_PATH", units)));
        let output = self.sandbox.output(command.args(words.split_whitespace()));
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// Runs a command of systemd and returns its output.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn ok(&self, words: &str) -> String {
        let (is_good, text) = self.run(words);
        assert!(is_good, "{words}: {text}");
        text
    }

    /// Returns process 1, the only child of the process that created its namespaces.
    fn init(&self) -> Option<Pid> {
        let parent = self.process.child.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    /// Returns a property of the service.
    #[must_use]
    pub fn show(&self, property: &str) -> String {
        self.ok(&format!("systemctl show ratelimit --value --property={property}"))
    }

    /// Returns the service's lines in the journal, each with its priority.
    #[must_use]
    pub fn journal(&self) -> Vec<(String, String)> {
        self.ok("journalctl --sync");
        let lines = self.ok("journalctl --directory=/run/log/journal --identifier=ratelimit --output=json");
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).expect("the journal prints JSON");
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (field("PRIORITY"), field("MESSAGE"))
        };
        lines.lines().map(line).collect()
    }
}

impl Drop for Systemd<'_> {
    fn drop(&mut self) {
        // The end of process 1 ends all others, and its parent exits after them.
        let _ = self.init().map(|init| kill_process(init, Signal::KILL));
        let _ = self.process.child.wait();
        self.sandbox.victim(|| remove(&self.cgroup));
    }
}

/// Installs units and files where systemd looks for them.
fn install(unit: &str) {
    let units = Path::new(UNITS);
    for folder in [
        units,
        Path::new("/run/sbin"),
        Path::new("/run/cgroup"),
        Path::new("/run/lib"),
        Path::new("/run/etc/ratelimit"),
    ] {
        fs::create_dir_all(folder).expect("cannot make a folder");
    }
    let write = |path: &Path, text: &str| fs::write(path, text).expect("cannot write a file");
    for target in TARGETS {
        write(&units.join(format!("{target}.target")), "[Unit]\nDefaultDependencies=no\n");
    }
    write(&units.join("sandbox.target"), "[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service\n");
    for name in JOURNAL {
        std::os::unix::fs::symlink(Path::new("/lib/systemd/system").join(name), units.join(name))
            .expect("cannot make a link");
    }
    write(&units.join("ratelimit.service"), unit);
    let etc = Path::new("/run/etc");
    write(
        &etc.join("passwd"),
        "root:x:0:0::/root:/bin/sh\nratelimit-check:x:991:991::/nonexistent:/usr/sbin/nologin\n",
    );
    write(&etc.join("group"), "root:x:0:\nratelimit:x:990:\nratelimit-check:x:991:\n");
    write(&etc.join("machine-id"), "0123456789abcdef0123456789abcdef\n");
    write(Path::new("/run/sbin/ratelimit"), "");
}

/// Removes a cgroup with its children.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}
