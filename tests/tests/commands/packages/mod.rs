//! The life of the Debian package in a clean root: it is installed, upgraded under a flood, removed and purged.
//!
//! `cargo xtask dist --check` builds the packages and names them in the environment.

mod kept;

use std::{
    collections::BTreeSet,
    env, fs, iter,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Instant,
};

use ratelimit_tests::{Flood, Frame, Sandbox, Systemd, VICTIM_LINK};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

/// The root with the package, in the sandbox.
const ROOT: &str = "/run/root/merged";
/// Sources of the flood, and the packets that each may send.
const SOURCES: u32 = 64;
const BURST: u64 = 10;
const PORT: u16 = 9;
/// Memory for packets that wait. Each takes a page.
const MEMORY: usize = 1 << 25;
/// Packets of the flood before the next step.
const ROUND: u64 = 100_000;

/// Files of the package besides manual pages and licences.
const FILES: [&str; 16] = [
    "/etc/fail2ban/action.d/ratelimit.conf",
    "/etc/ratelimit/ratelimit.toml",
    "/usr/lib/systemd/system/ratelimit-check.service",
    "/usr/lib/systemd/system/ratelimit.service",
    "/usr/sbin/ratelimit",
    "/usr/share/bash-completion/completions/ratelimit",
    "/usr/share/fish/vendor_completions.d/ratelimit.fish",
    "/usr/share/ratelimit/ansible/playbook.yml",
    "/usr/share/ratelimit/ansible/ratelimit.toml.j2",
    "/usr/share/ratelimit/grafana-check.json",
    "/usr/share/ratelimit/grafana.json",
    "/usr/share/ratelimit/kubernetes/daemonset.yaml",
    "/usr/share/ratelimit/ratelimit-check.rules.yml",
    "/usr/share/ratelimit/ratelimit.rules.yml",
    "/usr/share/ratelimit/ratelimit.toml",
    "/usr/share/zsh/vendor-completions/_ratelimit",
];
const LICENCES: [&str; 8] = [
    "/usr/share/doc/ratelimit/CHANGELOG.md",
    "/usr/share/doc/ratelimit/LICENSE-APACHE",
    "/usr/share/doc/ratelimit/LICENSE-GPL",
    "/usr/share/doc/ratelimit/LICENSE-MIT",
    "/usr/share/doc/ratelimit/LICENSES-RUST.html",
    "/usr/share/doc/ratelimit/LICENSES-THIRD-PARTY",
    "/usr/share/doc/ratelimit/bill-of-materials.cdx.json",
    "/usr/share/doc/ratelimit/copyright",
];
const MANUAL: &str = "/usr/share/man/man8/ratelimit";

/// The packages in the root.
const PACKAGE: &str = "/root/ratelimit.deb";
const NEXT_PACKAGE: &str = "/root/next.deb";

/// What dpkg and the commands for users write besides the package: their own records, and copies of earlier files.
const RECORDS: [&str; 3] = ["/var/lib/dpkg", "/var/log", "/var/cache"];

/// A minimal Debian over the one that is named, which stays as it is. It has the packages, and none is installed.
struct Root<'a>(&'a Sandbox);

impl<'a> Root<'a> {
    fn new(sandbox: &'a Sandbox) -> Self {
        let script = "set -e; mkdir -p /run/root/upper /run/root/work /run/root/merged
            mount -t overlay overlay -o lowerdir=$1,upperdir=/run/root/upper,workdir=/run/root/work /run/root/merged
            cd /run/root/merged; mount --rbind /sys sys; mount --rbind /dev dev; mount -t proc proc proc";
        let output = sandbox.output(Command::new("sh").args(["-c", script, "sh"]).arg(named("CLEAN_ROOT")));
        assert!(output.status.success(), "{output:?}");
        for (variable, file) in [("PACKAGE", PACKAGE), ("NEXT_PACKAGE", NEXT_PACKAGE)] {
            let package = named(variable);
            sandbox.victim(|| fs::copy(package, Path::new(ROOT).join(file.trim_start_matches('/')))).unwrap();
        }
        Self(sandbox)
    }

    /// Runs a program in the root.
    fn output(&self, words: &str) -> Output {
        let mut command = Command::new("chroot");
        command.arg(ROOT).args(words.split_whitespace()).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("DEBIAN_FRONTEND", "noninteractive");
        self.0.output(&mut command)
    }

    /// Runs a program in the root, which must succeed, and returns its output.
    #[track_caller]
    fn ok(&self, words: &str) -> String {
        let output = self.output(words);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success(), "{words}: {text}");
        text
    }

    /// Returns all files and folders except records of other programs, and the texts of the lists of users.
    fn state(&self) -> (BTreeSet<String>, [String; 2]) {
        let is_own = |path: &&str| !RECORDS.iter().any(|folder| path.starts_with(folder)) && !path.ends_with('-');
        let files = self.ok("find / -xdev").lines().filter(is_own).map(str::to_owned).collect();
        (files, ["/etc/passwd", "/etc/group"].map(|file| self.ok(&format!("cat {file}"))))
    }

    fn write(&self, path: &str, text: &str) {
        let path = Path::new(ROOT).join(path);
        self.0.victim(|| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        });
    }
}

/// Returns the path that a variable names.
fn named(variable: &str) -> PathBuf {
    env::var_os(variable).ok_or("`cargo xtask dist --check` runs this test").unwrap().into()
}

/// Does some work while sources over their limit send. Each of them must pass with its burst, and no packet more.
fn under_a_flood<T>(sandbox: &Sandbox, work: impl FnOnce() -> T) -> T {
    let socket = sandbox.victim(|| UdpSocket::bind(("0.0.0.0", PORT))).unwrap();
    socket.set_nonblocking(true).unwrap();
    set_socket_recv_buffer_size_force(&socket, MEMORY).unwrap();
    let flood = Flood::of(Frame::udp([10, 9, 1, 0], PORT)).sources(SOURCES).start(sandbox);
    let wait = |packets: u64| {
        while flood.sent() < packets {
            thread::yield_now();
        }
    };
    wait(ROUND);
    let begun = flood.sent();
    let result = work();
    let during = flood.sent() - begun;
    wait(flood.sent() + ROUND);
    let sent = flood.stop();
    let passed = iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count() as u64;
    println!("{during} of {sent} packets arrived during the upgrade, and {passed} passed in all");
    assert!(during > 0);
    assert_eq!(passed, u64::from(SOURCES) * BURST);
    result
}

#[test]
#[ignore = "needs the packages, and `cargo xtask dist --check` builds them"]
fn a_package_is_installed_upgraded_under_a_flood_removed_and_purged_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let root = Root::new(&sandbox);
    let before = root.state();

    // The installation limits nothing, and starts nothing.
    let begin = Instant::now();
    root.ok(&format!("dpkg --install {PACKAGE}"));
    assert_eq!(sandbox.pins(), Vec::<PathBuf>::new());
    assert!(root.ok("ratelimit --version").contains(" (commit "));
    let listed = root.ok("dpkg-query --listfiles ratelimit");
    let is_file = |path: &&str| sandbox.victim(|| Path::new(ROOT).join(path.trim_start_matches('/')).is_file());
    let (manual, others): (BTreeSet<_>, BTreeSet<_>) =
        listed.lines().filter(is_file).partition(|path| path.starts_with(MANUAL));
    let expected: BTreeSet<_> = FILES.into_iter().chain(LICENCES).collect();
    assert_eq!(others, expected);
    assert!(manual.len() > 40 && manual.contains("/usr/share/man/man8/ratelimit-limit-set.8.gz"), "{manual:?}");
    root.ok("ratelimit check /etc/ratelimit/ratelimit.toml");

    root.ok(&format!("ratelimit attach {VICTIM_LINK} --packets 1/d --burst {BURST}"));
    println!("from nothing to a held limit: {:.1} s", begin.elapsed().as_secs_f64());
    let changed = "interfaces = []\n# changed\n";
    root.write("etc/ratelimit/ratelimit.toml", changed);

    let text = under_a_flood(&sandbox, || root.ok(&format!("dpkg --install {NEXT_PACKAGE}")));
    assert!(!text.contains("stay in force"), "{text}");
    assert!(root.ok("ratelimit --version").contains("ratelimit 0.1.1"));
    assert!(root.ok("ratelimit status").contains(VICTIM_LINK), "the new version has taken over");
    assert_eq!(root.ok("cat /etc/ratelimit/ratelimit.toml"), changed);

    // Without the command, no limit stays.
    root.write("var/lib/ratelimit/state", "x");
    root.write("etc/ratelimit/check.toml", "# with hashes of tokens\n");
    root.ok("dpkg --remove ratelimit");
    assert_eq!(sandbox.pins(), Vec::<PathBuf>::new());
    assert_eq!(root.ok("cat /etc/ratelimit/ratelimit.toml /var/lib/ratelimit/state"), format!("{changed}x"));
    root.ok("dpkg --purge ratelimit");
    assert_eq!(root.state(), before);
}

#[test]
#[ignore = "needs the packages, and `cargo xtask dist --check` builds them"]
fn an_upgrade_restarts_the_service_without_a_gap_and_a_purge_ends_it() {
    let sandbox = Sandbox::new();
    let root = Root::new(&sandbox);
    let systemd = Systemd::in_root(&sandbox, Path::new(ROOT));
    systemd.ok(&format!("dpkg --install {PACKAGE}"));
    for unit in ["ratelimit", "ratelimit-check"] {
        let states = ["is-enabled", "is-active"].map(|question| systemd.run(&format!("systemctl {question} {unit}")).1);
        assert_eq!(states, ["disabled", "inactive"], "{unit}");
    }
    let file = format!("interfaces = [\"{VICTIM_LINK}\"]\n[default]\npackets = \"1/d\"\nburst = {BURST}\n");
    root.write("etc/ratelimit/ratelimit.toml", &file);
    systemd.ok("systemctl enable --now ratelimit");
    let process = systemd.show("MainPID");

    let text = under_a_flood(&sandbox, || systemd.ok(&format!("dpkg --install {NEXT_PACKAGE}")));
    assert!(!text.contains("stay in force"), "{text}");
    assert_eq!(systemd.show("ActiveState"), "active");
    assert_ne!(systemd.show("MainPID"), process);
    assert!(systemd.ok("ratelimit status").contains(VICTIM_LINK));

    systemd.ok("dpkg --purge ratelimit");
    assert_eq!(systemd.show("LoadState"), "not-found");
    assert_eq!(sandbox.pins(), Vec::<PathBuf>::new());
    let left = systemd.ok("find /etc /run /usr /var/lib -xdev -name *ratelimit* -not -path /var/lib/dpkg/*");
    assert_eq!(left, "");
}

#[test]
#[ignore = "needs the packages, and `cargo xtask dist --check` builds them"]
fn an_rpm_is_installed_replaced_and_erased_with_its_limits() {
    let sandbox = Sandbox::new();
    let root = Root::new(&sandbox);
    // The root has no database of this package manager, which knows none of its libraries.
    let rpm = |words: &str| {
        let mut command = Command::new("rpm");
        command.args(["--root", ROOT, "--nodeps"]).args(words.split(' '));
        let output = sandbox.output(&mut command);
        assert!(output.status.success(), "{words}: {output:?}");
    };
    let package = named("RPM_PACKAGE").display().to_string();
    rpm(&format!("--install {package}"));
    root.ok(&format!("ratelimit attach {VICTIM_LINK} --packets 1/d --burst {BURST}"));
    let next = named("NEXT_RPM_PACKAGE").display().to_string();
    under_a_flood(&sandbox, || rpm(&format!("--upgrade {next}")));
    assert!(root.ok("ratelimit --version").contains("ratelimit 0.1.1"));
    assert!(root.ok("ratelimit status").contains(VICTIM_LINK), "the new version has taken over");
    rpm("--verify ratelimit");
    let changed = "interfaces = []\n# changed\n";
    root.write("etc/ratelimit/ratelimit.toml", changed);
    rpm("--erase ratelimit");
    assert_eq!(sandbox.pins(), Vec::<PathBuf>::new());
    let left = root.ok("find /etc /usr -xdev -name *ratelimit* -type f");
    assert_eq!(left, "/etc/ratelimit/ratelimit.toml.rpmsave\n");
    assert_eq!(root.ok("cat /etc/ratelimit/ratelimit.toml.rpmsave"), changed);
}
