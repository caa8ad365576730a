//! Pins that are about to take the place of others. They are made in a folder of their own, the program last; then it goes on every link, and they
//! are put in place one by one. Whoever finds it half done knows by the program whether to finish it or to remove it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use aya::programs::Xdp;
use aya_obj::programs::XdpAttachType;
use ratelimit_common::map;

use super::{
    Error,
    attachment::Attachments,
    error::{Tried as _, at},
    instance::{PROGRAM, remove_if_there},
};

/// The folder.
const NEXT: &str = "next";

/// What is about to take the place of the pins in a folder.
pub(super) struct Stage<'a> {
    pins: &'a Path,
    folder: PathBuf,
}

impl<'a> Stage<'a> {
    fn of(pins: &'a Path) -> Self {
        Self { pins, folder: pins.join(NEXT) }
    }

    /// An empty one.
    pub(super) fn begin(pins: &'a Path) -> Result<Self, Error> {
        let stage = Self::of(pins);
        stage.abandon()?;
        fs::create_dir(&stage.folder).map_err(at(&stage.folder))?;
        Ok(stage)
    }

    /// Where something is pinned in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts what is in it in force: on every link, or on none, and then nothing is left of it. When it is, `then` tells whoever must know,
    /// or has it taken back.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`] where it is in force and some pin was not put in place. After any other, the old program is on every link.
    pub(super) fn put_in_force(
        &self,
        attachments: &Attachments,
        then: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let open =
            |path: PathBuf| Xdp::from_pin(path, XdpAttachType::Interface).tried("cannot open the pinned program");
        let running = || open(self.pins.join(PROGRAM));
        let outcome = open(self.path(PROGRAM)).and_then(|mut next| attachments.replace(&mut next, running()?));
        let outcome = outcome.and_then(|()| {
            let outcome = then();
            if outcome.is_err() {
                attachments.replace(&mut running()?, running()?)?;
            }
            outcome
        });
        if outcome.is_err() {
            self.abandon()?;
            return outcome;
        }
        self.put_in_place().map_err(|cause| Error::Unfinished { cause: Box::new(cause) })
    }

    /// Gives the pins the names of those before.
    fn put_in_place(&self) -> Result<(), Error> {
        let moved = map::MOVED.into_iter().map(|(_, old)| old);
        for name in moved.chain(map::PINNED).chain([PROGRAM]) {
            let (from, to) = (self.path(name), self.pins.join(name));
            if from.exists() {
                fs::rename(&from, &to).map_err(at(&to))?;
            }
        }
        fs::remove_dir(&self.folder).map_err(at(&self.folder))
    }

    /// Removes it with all that is in it.
    pub(super) fn abandon(&self) -> Result<(), Error> {
        // Without the program, nobody would finish it.
        let moved = map::MOVED.into_iter().map(|(_, old)| old);
        for name in [PROGRAM].into_iter().chain(moved).chain(map::PINNED) {
            remove_if_there(&self.path(name), |path| fs::remove_file(path))?;
        }
        remove_if_there(&self.folder, |path| fs::remove_dir(path))
    }
}

/// Finishes or removes what a command that was killed has left. Says whether it was finished.
pub(super) fn recover(pins: &Path, attachments: &Attachments) -> Result<bool, Error> {
    let stage = Stage::of(pins);
    if !stage.path(PROGRAM).exists() {
        stage.abandon()?;
        return Ok(false);
    }
    stage.put_in_force(attachments, || Ok(()))?;
    Ok(true)
}

/// Removes one that nobody is to finish.
pub(super) fn remove(pins: &Path) -> Result<(), Error> {
    Stage::of(pins).abandon()
}
