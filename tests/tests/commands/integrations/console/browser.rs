//! A real browser without a screen, driven by the pipes of its debugging protocol.

use std::{
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Instant,
};

use ratelimit_tests::{Folder, PATIENCE, Process, Sandbox};
use serde_json::{Value, json};

/// A browser with one page.
pub(super) struct Browser {
    process: Process,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    number: u64,
    /// Hosts of all requests, bytes of all answers, and what the browser complains about.
    pub(super) seen: Seen,
    _profile: Folder,
}

/// What a browser has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) urls: Vec<String>,
    pub(super) bytes: u64,
    pub(super) complaints: Vec<String>,
    has_loaded: bool,
}

/// The keys with their numbers, and the texts that they write.
const KEYS: [(&str, u32, &str); 2] = [("Tab", 9, ""), ("Enter", 13, "\r")];

/// Reads messages, each of which ends with a zero.
fn read(mut output: impl BufRead + Send + 'static) -> Receiver<Value> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        while output.read_until(0, &mut bytes).is_ok() && bytes.pop() == Some(0) {
            if send.send(serde_json::from_slice(&bytes).unwrap()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receive
}

impl Browser {
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        let profile = Folder::new();
        let folder = profile.file().with_file_name("profile");
        let mut command = Command::new("sh");
        // The browser reads from 3 and writes to 4.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "chromium-headless-shell"]);
        command.args(["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", folder.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = sandbox.start(command);
        let (input, output) = (process.child.stdin.take().unwrap(), process.child.stdout.take().unwrap());
        let messages = read(BufReader::new(output));
        let (session, seen) = (String::new(), Seen::default());
        let mut browser = Self { process, input, messages, session, number: 0, seen, _profile: profile };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", &attached);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Network", "Log", "Runtime"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        browser.ask("Emulation.setFocusEmulationEnabled", &json!({"enabled": true}));
        browser
    }

    /// Sends a command, and returns its result. Notes events meanwhile.
    pub(super) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        let begin = Instant::now();
        loop {
            let answer = self.message();
            assert!(begin.elapsed() < PATIENCE, "no answer to {method} {parameters}");
            if answer["id"] == json!(self.number) {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].clone();
            }
        }
    }

    fn message(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE).unwrap();
        let parameters = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.seen.urls.push(parameters["request"]["url"].as_str().unwrap().to_owned());
            }
            "Network.loadingFinished" => self.seen.bytes += parameters["encodedDataLength"].as_f64().unwrap() as u64,
            "Page.loadEventFired" => self.seen.has_loaded = true,
            "Log.entryAdded" => self.seen.complaints.push(parameters["entry"].to_string()),
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" => {
                self.seen.complaints.push(parameters.to_string());
            }
            _ => {}
        }
        message
    }

    /// Does something that loads another page, and waits for that.
    pub(super) fn and_load(&mut self, act: impl FnOnce(&mut Self)) {
        self.seen.has_loaded = false;
        act(self);
        let begin = Instant::now();
        while !self.seen.has_loaded {
            self.message();
            assert!(begin.elapsed() < PATIENCE, "no other page has loaded: {}", self.text());
        }
        // The focus of a new page is set before it is drawn.
        self.value("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))");
    }

    pub(super) fn open(&mut self, url: &str) {
        self.and_load(|browser| drop(browser.ask("Page.navigate", &json!({"url": url}))));
    }

    /// Returns the value of an expression.
    pub(super) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", &asked);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    pub(super) fn text(&mut self) -> String {
        self.value("document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Presses one of the keys.
    pub(super) fn press(&mut self, key: &str) {
        let (_, number, text) = KEYS.into_iter().find(|(name, ..)| *name == key).unwrap();
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number, "text": text});
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }

    pub(super) fn write(&mut self, text: &str) {
        self.ask("Input.insertText", &json!({"text": text}));
    }

    /// Presses Tab until this expression about the focused element holds.
    pub(super) fn tab_to(&mut self, condition: &str) {
        let is_there = (0..60).any(|_| {
            self.press("Tab");
            self.value(&format!("(e => {condition})(document.activeElement)")) == json!(true)
        });
        assert!(is_there, "the keyboard does not reach {condition}: {}", self.text());
    }

    /// Sets the size of the screen.
    pub(super) fn resize(&mut self, width: u32, height: u32, is_phone: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Closes the browser, and waits until it writes no file any more.
    pub(super) fn end(mut self) {
        self.input.write_all(format!("{}\0", json!({"id": 0, "method": "Browser.close"})).as_bytes()).unwrap();
        while self.messages.recv_timeout(PATIENCE).is_ok() {}
        assert!(self.process.wait().status.success());
    }

    /// Writes what the screen shows into a file.
    pub(super) fn picture(&mut self, path: &Path) {
        let shot = self.ask("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": false}));
        let file = std::fs::File::create(path).unwrap();
        let mut decode = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        decode.stdin.take().unwrap().write_all(shot["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }
}
