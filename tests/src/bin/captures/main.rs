//! Records the captures of `tests/data`: real programs communicate over a sandbox's wire, and every frame is kept.

mod dns;
mod options;
mod ping;
mod readme;
mod recorder;
mod run;
mod scene;
mod tcp;
mod udp;
mod wire;

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use ratelimit_tests::Sandbox;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{recorder::Recorder, scene::SCENES};

/// Folder of the captures.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

fn main() -> Result<()> {
    stay_on_one_cpu()?;
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {FOLDER}"))?;
    let sandbox = Sandbox::new();
    wire::prepare(&sandbox)?;
    let mut counts = Vec::new();
    for scene in &SCENES {
        let mut recorder = Recorder::start(&sandbox)?;
        (scene.play)(&sandbox, &mut recorder).with_context(|| format!("cannot make {}", scene.file))?;
        let frames = recorder.stop()?;
        let bytes = recorder::write(&folder.join(scene.file), &frames)?;
        println!("{:<16} {:>4} frames {bytes:>6} bytes", scene.file, frames.len());
        counts.push(frames.len());
    }
    readme::write(&folder.join("README.md"), &counts)
}

/// Restricts this process and its children to the first CPU, so that frames are recorded in the order in which they
/// were sent.
fn stay_on_one_cpu() -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    sched_setaffinity(None, &cpus).context("cannot move to the first CPU")
}
