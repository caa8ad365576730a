//! The log of all changes: one JSON line each.

use std::{
    borrow::Cow,
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{entry::Entry, file::beside};

/// The size in bytes from which on the next change begins a new file.
const MOST: u64 = 16 << 20;
/// The most bytes of an answer.
const ANSWER: usize = 1 << 20;
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
    /// Opens the log beside a file of rules, whose last change is `version`. What a killed server has left half is removed.
    /// A file that is a copy of other rules undoes no change of the log.
    pub(super) fn open(rules: &Path, version: u64, is_copy: bool) -> io::Result<Self> {
        let mut audit = Self { path: beside(rules, "log"), most: MOST, version };
        let mut file = audit.file()?;
        let length = file.metadata()?.len();
        let begin = length.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(begin))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole == 0 && begin > 0 {
            return Err(io::Error::other("is no log of changes"));
        }
        tail.truncate(whole);
        file.set_len(begin + whole as u64)?;
        let last = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Ok(mut last) = serde_json::from_slice::<Value>(last)
            && let Some(later) = last.get("version").and_then(Value::as_u64).filter(|later| *later > version)
            && let Some(entry) = last.as_object_mut()
        {
            // The server was killed before it wrote the rules, unless they are a copy.
            audit.version = later;
            if !is_copy && entry.get("action").is_some_and(|action| action != "undone") {
                entry.insert("at".to_owned(), Timestamp::now().to_string().into());
                entry.insert("action".to_owned(), "undone".into());
                audit.write(&last)?;
            }
        }
        Ok(audit)
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
    pub(super) fn add(&mut self, entry: &Entry<'_>) -> io::Result<Added> {
        let length = serde_json::to_vec(entry)?.len() as u64;
        if length > LINE {
            let advice = "write a smaller rule into the file of rules first";
            return Err(io::Error::other(format!(
                "the change has {length} bytes, at most {LINE} are possible: {advice}"
            )));
        }
        let added = self.write(entry)?;
        self.version = self.version.max(entry.version);
        Ok(added)
    }

    fn write(&self, entry: &impl Serialize) -> io::Result<Added> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = self.file()?;
        let mut length = file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.most {
            fs::rename(&self.path, beside(&self.path, "1"))?;
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

    /// Opens the files of the log, the older one first. No change may replace a file meanwhile.
    pub(super) fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for path in [&beside(&self.path, "1"), &self.path] {
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
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

/// Returns the last changes of wanted rules in these files, the newest first. There are fewer than `most` if they are large.
/// A line that is being written is left out.
pub(super) fn last(files: Vec<File>, most: usize, wanted: &dyn Fn(&str) -> bool) -> io::Result<Vec<Value>> {
    let mut lines: VecDeque<String> = VecDeque::new();
    let mut bytes = 0;
    for file in files {
        for line in BufReader::new(file).lines() {
            let line = line?;
            if !serde_json::from_str(&line).is_ok_and(|Named { name }| wanted(&name)) {
                continue;
            }
            bytes += line.len();
            lines.push_back(line);
            while lines.len() > most || (bytes > ANSWER && lines.len() > 1) {
                bytes -= lines.pop_front().map_or(0, |line| line.len());
            }
        }
    }
    Ok(lines.iter().rev().filter_map(|line| serde_json::from_str(line).ok()).collect())
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
