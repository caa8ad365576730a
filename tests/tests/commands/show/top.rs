//! `top` in a real terminal.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    num::NonZero,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use ratelimit_tests::{Flood, Frame, PATIENCE, Process, Ratelimit, Sandbox};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

/// A terminal of 80 columns and 24 lines with a program in it.
struct Screen {
    master: File,
    terminal: File,
    parser: vt100::Parser,
    process: Process,
}

impl Screen {
    fn start(sandbox: &Sandbox, mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let end = || terminal.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        let process = sandbox.start(command);
        let [lines, columns] = [24, 80].map(|number| NonZero::new(number).unwrap());
        Self { master: File::from(master), terminal, parser: vt100::Parser::new(lines, columns, 0), process }
    }

    fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the screen is as wanted, and returns its text.
    fn until(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let text = self.parser.screen().contents();
            if is_wanted(&text) {
                return text;
            }
            assert!(begin.elapsed() < PATIENCE, "{text}");
            self.read();
        }
    }

    /// Reads what comes within a second. Returns whether anything came.
    fn read(&mut self) -> bool {
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        let is_any = poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap() > 0;
        if is_any {
            let mut bytes = [0; 4_096];
            let count = self.master.read(&mut bytes).unwrap();
            self.parser.process(&bytes[..count]);
        }
        is_any
    }

    /// Waits for the program's end. Returns its exit status, and asserts that the terminal is as before.
    fn end(mut self) -> Option<i32> {
        let status = self.process.wait().status.code();
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?} {status:?}");
        while self.read() {}
        assert!(!self.parser.screen().alternate_screen(), "the screen stays");
        status
    }
}

fn start<'a>(sandbox: &'a Sandbox, ratelimit: &Ratelimit<'a>) -> Screen {
    let mut screen = Screen::start(sandbox, ratelimit.command("top"));
    screen.until(|text| text.contains("q quit"));
    screen
}

#[test]
fn the_worst_source_is_on_top_and_a_key_bans_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 50);
    Flood::of(Frame::udp([10, 9, 0, 67], 9)).send(&sandbox, 9);
    let mut screen = start(&sandbox, &ratelimit);
    let text = screen.until(|text| text.contains("10.9.0.66"));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0].trim_end(), "eth0: enforced", "{text}");
    let of = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(lines[6]), ["10.9.0.66", "any", "~0", "0", "~3", "47", "1/h"], "{text}");
    assert_eq!(of(lines[7]), ["10.9.0.67", "any", "~0", "0", "~3", "6", "1/h"], "{text}");

    // Nothing is done without a confirmation.
    screen.send("b");
    screen.until(|text| text.contains("drop all packets of 10.9.0.66"));
    screen.send("n");
    screen.until(|text| text.contains("nothing changed"));
    assert_eq!(ratelimit.json("deny list").as_array().unwrap().len(), 0);
    screen.send("b");
    screen.until(|text| text.contains("drop all packets of 10.9.0.66"));
    screen.send("y");
    screen.until(|text| text.contains("10.9.0.66: deny, expires in 10m (to undo: `ratelimit deny del 10.9.0.66`)"));
    let deny = ratelimit.json("deny list")[0].take();
    assert_eq!(deny["source"], "10.9.0.66");
    screen.send("ja");
    screen.until(|text| text.contains("let all packets of 10.9.0.67 pass"));
    screen.send("y");
    screen.until(|text| text.contains("10.9.0.67: allow"));
    assert_eq!(ratelimit.json("allow list")[0]["source"], "10.9.0.67");

    screen.send("4");
    screen.until(|text| text.lines().any(|line| line.starts_with("eth0 ") && line.trim_end().ends_with("native")));
    screen.send("q");
    assert_eq!(screen.end(), Some(0));
    ratelimit.ok("detach --all");
}

#[test]
fn a_key_never_bans_the_own_ssh_session() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 50);
    let mut command = ratelimit.command("top --no-allow-ssh");
    command.env("SSH_CONNECTION", "10.9.0.66 50000 10.9.0.1 22");
    let mut screen = Screen::start(&sandbox, command);
    screen.until(|text| text.contains("10.9.0.66"));
    // Keys before the question is on the screen do not answer it.
    screen.send("by");
    screen.until(|text| text.contains("drop all packets of 10.9.0.66"));
    screen.send("y");
    let text = screen.until(|text| text.contains("nothing changed: "));
    assert!(text.contains("SSH"), "{text}");
    assert_eq!(ratelimit.json("deny list").as_array().unwrap().len(), 0);
    screen.send("\u{3}");
    assert_eq!(screen.end(), Some(0));
    ratelimit.ok("detach --all");
}

#[test]
fn the_screen_follows_an_instance_that_goes_and_comes_back() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h");
    let mut screen = start(&sandbox, &ratelimit);
    ratelimit.ok("detach --all");
    screen.until(|text| text.contains("ratelimit is not attached"));
    ratelimit.ok("attach eth0 --shadow");
    screen.until(|text| text.contains("eth0: in shadow"));
    // A signal restores the terminal too.
    screen.process.signal(Signal::TERM);
    assert_eq!(screen.end(), Some(0));
    ratelimit.ok("detach --all");
}

#[test]
fn the_command_ends_with_its_terminal() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h");
    let Screen { mut process, master, terminal, .. } = start(&sandbox, &ratelimit);
    drop((master, terminal));
    let status = process.wait().status;
    assert!(status.code().is_some(), "{status}");
    ratelimit.ok("detach --all");
}

#[test]
fn without_a_terminal_other_commands_are_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    assert!(ratelimit.fails("top").contains("needs a terminal: `ratelimit status`"));
    assert!(ratelimit.fails("top -j").contains("has no JSON"));
    ratelimit.ok("attach eth0");
    assert!(ratelimit.fails("top").contains("needs a terminal"));
    ratelimit.ok("detach --all");
}

#[test]
fn a_newcomer_is_found_beside_many_busy_sources() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 1 --front off");
    let others = || Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(140).send(&sandbox, 140 * 9);
    others();
    let mut screen = start(&sandbox, &ratelimit);
    let is_found = |text: &str| text.lines().nth(6).is_some_and(|line| line.starts_with("10.9.0.66 "));
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            while !is_done.load(Ordering::Relaxed) && begin.elapsed() < PATIENCE {
                others();
                Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 900);
            }
        });
        screen.until(is_found);
        is_done.store(true, Ordering::Relaxed);
    });
    screen.send("q");
    assert_eq!(screen.end(), Some(0));
    ratelimit.ok("detach --all");
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let screen = start(&sandbox, &ratelimit);
        screen.process.signal(signal);
        assert_eq!(screen.end(), Some(0), "{signal:?}");
    }
    ratelimit.ok("detach --all");
}
