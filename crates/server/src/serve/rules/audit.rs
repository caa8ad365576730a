//! The log of all changes: one JSON line each.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
    fs::{self, File, OpenOptions},
    hash::{BuildHasher as _, RandomState},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use ratelimit_base::{
    files::{damaged, guarded},
    notify::journal::{self, Level},
    text::excerpt::message,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{entry::Entry, file::beside, teams::Teams};

/// The size in bytes from which on the next change begins a new file.
const MOST: u64 = 16 << 20;
/// The most bytes of an answer.
pub(super) const ANSWER: usize = 1 << 20;
/// Bytes at the end of a file that have the last line.
const TAIL: u64 = 256 << 10;
/// The most bytes of a change in the log. What a killed server leaves half is shorter than the end of a file.
const LINE: u64 = TAIL / 2;

/// The file of the log, and an older one.
#[derive(Debug)]
pub(super) struct Audit {
    path: PathBuf,
    most: u64,
    /// The latest version in the log.
    version: u64,
}

impl Audit {
    /// Opens the log beside a file of rules, whose last change is `version`. What a killed server has left half is removed. None
    /// for a file that cannot be read, or is a copy of other rules: it undoes no change of the log.
    ///
    /// A log only records changes, so nothing that is wrong with it keeps rules from being in force. A damaged one gets
    /// another name, and without one that can be written, nothing is changed.
    pub(super) fn open(rules: &Path, version: Option<u64>) -> Self {
        let mut audit = Self { path: beside(rules, "log"), most: MOST, version: version.unwrap_or_default() };
        if let Err(error) = audit.begin(version) {
            let text = format!("the log of changes of rules: {}: {error}", audit.path.display());
            journal::say(Level::Warning, &message(&text));
        }
        audit
    }

    fn begin(&mut self, version: Option<u64>) -> io::Result<()> {
        let mut file = self.file()?;
        let length = file.metadata()?.len();
        let begin = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(begin))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if tail.len() - whole > LINE as usize {
            let aside = damaged::set_aside(&self.path)?;
            return Err(io::Error::other(format!("is damaged, and has the name {} now", aside.display())));
        }
        tail.truncate(whole);
        file.set_len(begin + whole as u64)?;
        let last = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Ok(mut last) = serde_json::from_slice::<Value>(last)
            && let Some(later) = last.get("version").and_then(Value::as_u64).filter(|later| *later > self.version)
            && let Some(entry) = last.as_object_mut()
        {
            // The server was killed before it wrote the rules, unless they are a copy.
            self.version = later;
            if version.is_some() && entry.get("action").is_some_and(|action| action != "undone") {
                entry.insert("at".to_owned(), Timestamp::now().to_string().into());
                entry.insert("action".to_owned(), "undone".into());
                self.write(&last, &Teams::default())?;
            }
        }
        Ok(())
    }

    /// Begins a new file at another size.
    #[cfg(test)]
    pub(super) fn limit(&mut self, most: u64) {
        self.most = most;
    }

    /// Returns the latest version in the log.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Adds a change. It is on the disk when this returns. Otherwise the log is as before.
    pub(super) fn add(&mut self, entry: &Entry<'_>, teams: &Teams) -> io::Result<Added> {
        let length = serde_json::to_vec(entry)?.len() as u64;
        if length > LINE {
            let advice = "write a smaller rule into the file of rules first";
            return Err(io::Error::other(format!(
                "the change has {length} bytes, at most {LINE} are possible: {advice}"
            )));
        }
        let added = self.write(entry, teams)?;
        self.version = self.version.max(entry.version);
        Ok(added)
    }

    fn write(&self, entry: &impl Serialize, teams: &Teams) -> io::Result<Added> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.file()?;
        let mut length = file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.most {
            // A crash here leaves changes in both files, which are read once.
            self.keep_last(teams)?;
            // Those who read the file go on with the old one.
            fs::remove_file(&self.path)?;
            (file, length) = (self.file()?, 0);
        }
        let added = Added { file, length };
        let written = (&added.file).write_all(&line).and_then(|()| added.file.sync_all());
        // The name of a new file must outlast a crash too.
        let kept = written.and_then(|()| File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all());
        match kept {
            Ok(()) => Ok(added),
            Err(error) => {
                let _ = added.undo();
                Err(error)
            }
        }
    }

    /// Moves the last changes of each team into the older file. So a team that makes many makes the others forget none.
    fn keep_last(&self, teams: &Teams) -> io::Result<()> {
        let most = self.most / (teams.count() as u64 + 1);
        let lines = match self.lengths(teams) {
            Err(error) if !is_for_now(&error) => {
                self.set_older_aside()?;
                self.lengths(teams)?
            }
            lines => lines?,
        };
        let mut of_teams: HashMap<Option<usize>, u64> = HashMap::new();
        let is_kept = |(team, length): &(Option<usize>, u64)| {
            let bytes = of_teams.entry(*team).or_default();
            let is_first = *bytes == 0;
            *bytes += length;
            is_first || *bytes <= most
        };
        let kept: Vec<bool> = lines.iter().rev().map(is_kept).collect();
        let mut kept = kept.into_iter().rev();
        let files = self.files()?;
        guarded::replace(&beside(&self.path, "1"), |out| {
            let mut outcome = Ok(());
            each(files, |line| {
                if kept.next() == Some(true) && outcome.is_ok() {
                    outcome = out.write_all(line).and_then(|()| out.write_all(b"\n"));
                }
            })?;
            outcome
        })
    }

    /// Returns the team and the length of each line.
    fn lengths(&self, teams: &Teams) -> io::Result<Vec<(Option<usize>, u64)>> {
        let mut lines = Vec::new();
        each(self.files()?, |line| {
            let team = serde_json::from_slice(line).map_or(None, |Named { name }| teams.of_rule(&name));
            lines.push((team, line.len() as u64 + 1));
        })?;
        Ok(lines)
    }

    /// Gives an older file that cannot be read another name, so that it keeps no change from being made.
    fn set_older_aside(&self) -> io::Result<()> {
        let older = beside(&self.path, "1");
        let read = reading(&older).and_then(|file| each(vec![file], |_| {}));
        if let Err(error) = read
            && !is_absent(&error)
        {
            let (aside, older) = (damaged::set_aside(&older)?, older.display());
            let text =
                format!("the log of changes of rules: {older}: {error}: it has the name {} now", aside.display());
            journal::say(Level::Warning, &message(&text));
        }
        Ok(())
    }

    /// Opens the files of the log, the older one first. No change may replace a file meanwhile.
    pub(super) fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for path in [&beside(&self.path, "1"), &self.path] {
            match reading(path) {
                Err(error) if is_absent(&error) => {}
                file => files.push(file?),
            }
        }
        Ok(files)
    }

    fn file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = options.open(&self.path)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is not a regular file")) }
    }
}

fn reading(path: &Path) -> io::Result<File> {
    // Opening a pipe would wait until another process writes to it.
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns whether an error says nothing about a file.
fn is_for_now(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR))
}

/// Returns the last changes of wanted rules in these files, the newest first. There are fewer than `most` if they are large.
/// What is no change is left out, such as a line that is being written.
pub(super) fn last(files: Vec<File>, most: usize, wanted: &dyn Fn(&str) -> bool) -> io::Result<Vec<Value>> {
    let mut lines: VecDeque<Vec<u8>> = VecDeque::new();
    let mut bytes = 0;
    each(files, |line| {
        if !serde_json::from_slice(line).is_ok_and(|Named { name }| wanted(&name)) {
            return;
        }
        bytes += line.len();
        lines.push_back(line.to_vec());
        while lines.len() > most || (bytes > ANSWER && lines.len() > 1) {
            bytes -= lines.pop_front().map_or(0, |line| line.len());
        }
    })?;
    Ok(lines.iter().rev().filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Reads the lines of these files, each once. One that is longer than any change is left out.
fn each(files: Vec<File>, mut read: impl FnMut(&[u8])) -> io::Result<()> {
    let mut before: HashSet<u64> = HashSet::new();
    let hashes = RandomState::new();
    for file in files {
        let (mut file, mut line) = (BufReader::new(file), Vec::new());
        let mut own = Vec::new();
        while file.by_ref().take(LINE + 1).read_until(b'\n', &mut line)? > 0 {
            if line.pop_if(|last| *last == b'\n').is_some() {
                let hash = hashes.hash_one(&line);
                if !before.contains(&hash) {
                    read(&line);
                }
                own.push(hash);
            } else {
                file.skip_until(b'\n')?;
            }
            line.clear();
        }
        before.extend(own);
    }
    Ok(())
}

/// What tells the rule of a change.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// A line of the log that can still be taken back.
#[derive(Debug)]
pub(super) struct Added {
    file: File,
    length: u64,
}

impl Added {
    /// Takes the line back.
    pub(super) fn undo(self) -> io::Result<()> {
        self.file.set_len(self.length).and_then(|()| self.file.sync_all())
    }
}
